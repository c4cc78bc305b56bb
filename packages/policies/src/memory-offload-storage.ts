import type { OffloadStorage } from "./offload-storage.ts";

/** Results kept in memory, under numbered paths: for tests, and for contexts that are no file. */
export function memoryOffloadStorage(folder = "offloaded"): OffloadStorage {
  const numbers = new Map<string, number>();
  const texts = new Map<string, string>();
  const owned = new RegExp(`^${folder.replace(/[^A-Za-z0-9/_-]/g, "\\$&")}/\\d+\\.txt$`);
  const pathFor = (text: string) => {
    if (!numbers.has(text)) numbers.set(text, numbers.size + 1);
    return `${folder}/${numbers.get(text)}.txt`;
  };
  return {
    pathFor,
    owns: (path) => owned.test(path),
    has: async (path) => texts.has(path),
    async write(text) {
      texts.set(pathFor(text), text);
      return pathFor(text);
    },
    read: async (path) => texts.get(path),
    async remove(path) {
      texts.delete(path);
    },
    list: async () => [...texts.keys()],
  };
}
