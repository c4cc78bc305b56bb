export { findExtensions, loadExtension } from "./load-extension.ts";
