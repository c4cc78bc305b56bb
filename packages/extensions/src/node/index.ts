export {
  findExtensions,
  type LoadExtensionOptions,
  loadExtension,
} from "./load-extension.ts";
