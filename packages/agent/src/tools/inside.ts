import { realpath } from "node:fs/promises";
import { relative, resolve, sep } from "node:path";

/**
 * The real path of something below one of these folders. Links are followed first, so that none leads out.
 * @throws Error with a sentence for the model
 */
export async function inside(folders: readonly string[], path: string): Promise<string> {
  const wanted = resolve(folders[0] ?? ".", path);
  const real = await realpath(wanted).catch(() => {
    throw new Error(`There is no file or folder ${path}.`);
  });
  for (const folder of folders) {
    const way = relative(await realpath(folder).catch(() => folder), real);
    if (way === "" || (!way.startsWith(`..${sep}`) && way !== ".." && !way.startsWith(sep))) return real;
  }
  throw new Error(`${path} is outside the working folder; only what is below it can be read.`);
}
