import { createHash } from "node:crypto";
import { copyFileSync, createReadStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { copySession } from "@espalier/engine";
import { createId, type SessionStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";

/** The copies that the demo plays with, and the original, which it never writes. */
export interface DemoCopies {
  /** What opens the copy. */
  copy: string;
  /** Where the fork shall be; undefined leaves it to the store. */
  fork: string | undefined;
  /** Where both are, for people. */
  place: string;
  /** The same, for programs. */
  facts: object;
  /** Bytes of the original and their SHA-256, as they are now. */
  original(): Promise<{ bytes: number; sha256: string }>;
  /** Takes the copies away. */
  discard(): Promise<void>;
}

/** A copy of a file in a folder of its own. The original is the file, or the one that it was made from. */
export function copiesInFolder(file: string, original = file): DemoCopies {
  const folder = mkdtempSync(join(tmpdir(), "espalier-demo-"));
  const copy = join(folder, basename(file));
  copyFileSync(file, copy);
  return {
    copy,
    fork: join(folder, "fork.jsonl"),
    place: folder,
    facts: { folder },
    async original() {
      const hash = createHash("sha256");
      await pipeline(createReadStream(original), hash);
      return { bytes: statSync(original).size, sha256: hash.digest("hex") };
    },
    discard: async () => rmSync(folder, { recursive: true }),
  };
}

/**
 * A copy in a store, of one of its sessions or of a file.
 * @throws EngineError `damaged`, and what the stores throw
 */
export async function copiesInStore(store: SessionStore, ref: string, isFile: boolean): Promise<DemoCopies> {
  const source = isFile ? fileStore({ home: tmpdir() }) : store;
  const reading = async <Result>(
    read: (log: Awaited<ReturnType<SessionStore["open"]>>) => Promise<Result>,
  ) => {
    const log = await source.open({ file: ref }, "read");
    return read(log).finally(() => log.close());
  };
  const copy = await reading((log) => copySession(log, store, `demo-${createId()}`));
  return {
    copy: copy.file,
    fork: undefined,
    place: `${copy.file}, and its fork, in the store`,
    facts: { copy: copy.file },
    original: () =>
      reading(async (log) => {
        const view = await log.load();
        const sha256 = createHash("sha256").update(view.read(0, view.size)).digest("hex");
        return { bytes: view.size, sha256 };
      }),
    discard: async () => {
      await store.delete({ file: copy.file });
    },
  };
}
