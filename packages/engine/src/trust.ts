import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createId } from "@espalier/session-tree";
import { EngineError } from "./engine-error.ts";
import { espalierHome } from "./home.ts";

/** The project folders whose extensions and settings count, by real path. Kept under the home, for its owner alone. */
export interface TrustStore {
  /** False for a folder that is not there. */
  isTrusted(folder: string): boolean;
  /** From now on this folder counts. Throws `EngineError` `bad-input` where there is none. */
  trust(folder: string): void;
  /** From now on it does not; nothing happens for one that never did. */
  revoke(folder: string): void;
  /** All of them, sorted. */
  list(): string[];
}

/** Opens the trust of a home. Throws `EngineError` `bad-input` when its file cannot be understood: nothing is trusted then. */
export function openTrust(home: string = espalierHome()): TrustStore {
  const file = join(home, "trusted.json");
  const read = (): string[] => {
    if (!existsSync(file)) return [];
    try {
      const folders: unknown = JSON.parse(readFileSync(file, "utf8"));
      if (Array.isArray(folders) && folders.every((folder) => typeof folder === "string")) return folders;
    } catch (cause) {
      throw new EngineError(
        "bad-input",
        `${file} is not readable as a list of folders; remove it and trust your projects again.`,
        { cause },
      );
    }
    throw new EngineError(
      "bad-input",
      `${file} is not a list of folders; remove it and trust your projects again.`,
    );
  };
  const write = (folders: readonly string[]) => {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const draft = `${file}.${createId()}.tmp`;
    writeFileSync(draft, `${JSON.stringify(folders, null, 2)}\n`, { mode: 0o600, flag: "wx" });
    renameSync(draft, file);
  };
  return {
    isTrusted: (folder) => existsSync(folder) && read().includes(realpathSync(folder)),
    trust(folder) {
      if (!existsSync(folder))
        throw new EngineError("bad-input", `There is no folder ${folder}; name the project's folder.`);
      const real = realpathSync(folder);
      const folders = read();
      if (!folders.includes(real)) write([...folders, real].sort());
    },
    revoke(folder) {
      const real = existsSync(folder) ? realpathSync(folder) : resolve(folder);
      write(read().filter((trusted) => trusted !== real));
    },
    list: read,
  };
}
