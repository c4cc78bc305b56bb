// The version of a host: an adapter has its types alone, so that what is installed may be another one than it was made for.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { EspalierError } from "../index.ts";

/**
 * Refuses a host in a version that the adapter's tests were not run with. One that is not found beside this package (a
 * bundle, a host under another name) is not judged.
 *
 * @param oldest first version that is tested
 * @param next first version that is not
 * @throws EspalierError `unsuitable`
 */
export function refuseOtherVersions(host: string, oldest: string, next: string): void {
  const version = versionOf(host);
  if (version === undefined || (compare(version, oldest) >= 0 && compare(version, next) < 0)) return;
  throw new EspalierError(
    "unsuitable",
    `${host} ${version} is not a version that this adapter was tested with; npm install "${host}@>=${oldest} <${next}".`,
  );
}

function versionOf(host: string): string | undefined {
  for (const folder of createRequire(import.meta.url).resolve.paths(host) ?? [])
    try {
      const { version } = JSON.parse(readFileSync(join(folder, host, "package.json"), "utf8")) as {
        version?: unknown;
      };
      if (typeof version === "string") return version;
    } catch (error) {
      if (
        (error as NodeJS.ErrnoException).code === "ENOENT" ||
        (error as NodeJS.ErrnoException).code === "ENOTDIR"
      )
        continue;
      throw error;
    }
  return undefined;
}

/** By numbers; what follows them (`-beta.1`) says nothing. */
function compare(a: string, b: string): number {
  const numbers = (version: string) => version.split(/[-+]/)[0]!.split(".").map(Number);
  const [left, right] = [numbers(a), numbers(b)];
  const at = left.findIndex((number, place) => number !== right[place]);
  return at < 0 ? 0 : left[at]! - (right[at] ?? 0);
}
