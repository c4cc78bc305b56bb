import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileStore } from "@espalier/session-tree/node";
import { foreignAgentOf } from "../foreign-session.ts";

/** The session that a demo is of. */
export interface DemoSource {
  ref: string;
  /** What people call it, where it is a file whatever the store is. */
  name?: string;
  /** The file that it was made from, where it is not that file itself. */
  madeFrom?: string;
}

/**
 * Calls `play` with a file as it is, or, where another agent wrote it, with the session that an import makes of it; that
 * one is gone when `play` is done.
 */
export async function withDemoSource(
  named: string,
  play: (source: DemoSource) => Promise<void>,
): Promise<void> {
  const file = resolve(named);
  const agent = await foreignAgentOf(file);
  if (agent === undefined) return play({ ref: file });
  const { importSessions } = await import("@espalier/interop/node");
  const home = mkdtempSync(join(tmpdir(), "espalier-demo-import-"));
  try {
    const store = fileStore({ home });
    for await (const { file: ref } of importSessions(file, { store }))
      if (ref !== null)
        return await play({
          ref,
          name: `what an import makes of ${file}, a session of ${agent}`,
          madeFrom: file,
        });
  } finally {
    rmSync(home, { recursive: true });
  }
  // Nothing in it could be imported: whoever opens it says what it is.
  return play({ ref: file });
}
