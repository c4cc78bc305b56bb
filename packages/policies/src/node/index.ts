export { fileOffloadStorage } from "../file-offload-storage.ts";
