import { AsyncLocalStorage } from "node:async_hooks";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type Entry,
  type NewEntry,
  Redactor,
  readDrafts,
  redactEntry,
  redactText,
} from "@espalier/session-tree";
import { contextForHandlers } from "../extensions/context.ts";
import type { Session } from "./session.ts";
import { entryBeforeAppend } from "./state.ts";

/**
 * Runs the hooks of an append, then the redaction: what comes out is written.
 * @throws ExtensionError when a critical handler fails; EspalierError `invalid-entry`
 */
export async function transformDrafts<Drafted extends NewEntry | Entry>(
  session: Session,
  drafts: readonly Drafted[],
): Promise<readonly Drafted[]> {
  const { host, options } = session;
  const { redact = redactText } = options;
  // The append refuses a value that is nested too deeply to be redacted: it is too deep to be written.
  const redactor = redact && new Redactor(redact, { tooDeep: (value) => value });
  const redacted = (draft: Drafted): Drafted =>
    redactor ? readDrafts(() => redactEntry(draft, redactor)) : draft;
  if (!host.has(entryBeforeAppend)) return drafts.map(redacted);
  const handlerContext = contextForHandlers(session);
  const append: HandledAppend = { session, isOver: false, outer: running.getStore() };
  const transformed = async (draft: Drafted) =>
    redacted((await host.transform(entryBeforeAppend, draft, handlerContext)) as Drafted);
  try {
    return await running.run(append, () => Promise.all(drafts.map(transformed)));
  } finally {
    append.isOver = true;
  }
}

interface HandledAppend {
  session: Session;
  /** Set once the append no longer waits. */
  isOver: boolean;
  /** The append whose handler made this one, in another session. */
  outer: HandledAppend | undefined;
}

const running = new AsyncLocalStorage<HandledAppend>();

/**
 * Refuses an append by a handler that the same session's append waits for: each would wait for the other. Later, and in
 * other sessions, a handler may append.
 *
 * @throws EspalierError `nested-append`
 */
export function refuseNestedAppend(session: Session): void {
  for (let append = running.getStore(); append; append = append.outer) {
    if (append.session !== session || append.isOver) continue;
    throw new EspalierError(
      "nested-append",
      "A handler of entry_before_append cannot append to the session that waits for its answer; do it in entry_appended.",
    );
  }
}
