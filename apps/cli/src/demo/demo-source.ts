import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileStore } from "@espalier/session-tree/node";
import { foreignAgentOf } from "../foreign-session.ts";

/** The session that a demo is of, and what it is called. */
export interface DemoSource {
  ref: string;
  name?: string;
}

/** A file as it is, or, where another agent wrote it, the session that an import makes of it in a folder of its own. */
export async function demoSource(named: string): Promise<DemoSource> {
  const file = resolve(named);
  const agent = await foreignAgentOf(file);
  if (agent === undefined) return { ref: file };
  const { importSessions } = await import("@espalier/interop/node");
  const store = fileStore({ home: mkdtempSync(join(tmpdir(), "espalier-demo-")) });
  for await (const { file: ref } of importSessions(file, { store }))
    if (ref !== null) return { ref, name: `what an import makes of ${file}, a session of ${agent}` };
  return { ref: file };
}
