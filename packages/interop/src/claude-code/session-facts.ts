import { type ByteView, parseLine, scanLines } from "@espalier/jsonl-stream";
import { isRecord } from "@espalier/session-tree";
import { NO_TIME, readTime, type SourceTime } from "../import-entry.ts";

/** What a file says of its session in its first lines. */
export interface SessionFacts {
  sessionId: string | undefined;
  agentId: string | undefined;
  /** True where no line of the beginning is one of the conversation itself. */
  isSidechain: boolean;
  /** The id of the first line that has a place in the tree. Forks keep it. */
  rootId: string | undefined;
  cwd: string;
  version: string | undefined;
  time: SourceTime;
}

/** How many lines are looked at: what is wanted stands in each line of the conversation. */
const LINES = 200;

/** Reads the beginning of a file. */
export function readSessionFacts(view: ByteView): SessionFacts {
  const facts: SessionFacts = {
    sessionId: undefined,
    agentId: undefined,
    isSidechain: false,
    rootId: undefined,
    cwd: "",
    version: undefined,
    time: NO_TIME,
  };
  let seen = 0;
  for (const { bytes } of scanLines(view, { blockSize: 1 << 16 })) {
    if (++seen > LINES) break;
    const parsed = parseLine(bytes);
    if (!parsed.ok || !isRecord(parsed.value)) continue;
    const { sessionId, agentId, uuid, cwd, version, timestamp, isSidechain } = parsed.value;
    if (typeof sessionId === "string") facts.sessionId ??= sessionId;
    if (facts.time === NO_TIME) facts.time = readTime(timestamp, NO_TIME);
    if (typeof uuid !== "string") continue;
    facts.rootId = uuid;
    facts.isSidechain = isSidechain === true;
    if (typeof agentId === "string") facts.agentId = agentId;
    if (typeof cwd === "string") facts.cwd = cwd;
    if (typeof version === "string") facts.version = version;
    if (facts.sessionId !== undefined) break;
  }
  return facts;
}
