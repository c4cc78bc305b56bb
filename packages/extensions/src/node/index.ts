export {
  findExtensions,
  type LoadExtensionOptions,
  type LoadedExtension,
  loadExtension,
} from "./load-extension.ts";
