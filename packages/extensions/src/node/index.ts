export { findExtensions } from "./find-extensions.ts";
export { type LoadExtensionOptions, type LoadedExtension, loadExtension } from "./load-extension.ts";
