import { parseLine, scanLines } from "@espalier/jsonl-stream";
import { ALONE } from "../import-draft.ts";
import { InteropError } from "../import-error.ts";
import type { SourceFile } from "../import-source.ts";
import { type LocalAgent, localAgents } from "./local-agent.ts";
import { SourceFiles } from "./source-files.ts";

/** How many lines are looked at to tell whose a file is. */
const LINES = 50;

/** What cannot be opened is as good as missing to who only looks at it in passing. */
export function openOrNothing(path: string, files: SourceFiles): SourceFile | undefined {
  try {
    return files.open(path);
  } catch (error) {
    if (error instanceof InteropError) return undefined;
    throw error;
  }
}

/**
 * Whose session a file is, told from the first line that an importer knows; a compressed one from its name. Undefined for
 * a file that none knows, and for one that cannot be opened.
 */
export function agentOfFile(path: string, files = new SourceFiles()): LocalAgent | undefined {
  if (path.endsWith(".zst")) return localAgents.find((agent) => agent.isSession(path));
  const source = openOrNothing(path, files);
  for (const line of source ? firstLines(source) : []) {
    const agent = localAgents.find((candidate) => candidate.importer(ALONE).recognises(line));
    if (agent) return agent;
  }
  return undefined;
}

function firstLines({ view }: SourceFile): unknown[] {
  const lines: unknown[] = [];
  let seen = 0;
  for (const { bytes } of scanLines(view, { blockSize: 1 << 16 })) {
    if (++seen > LINES) break;
    const parsed = parseLine(bytes);
    if (parsed.ok) lines.push(parsed.value);
  }
  return lines;
}
