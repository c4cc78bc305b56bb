import { AsyncLocalStorage } from "node:async_hooks";
import type { SessionTree } from "@espalier/session-tree";
import { EngineError } from "./engine-error.ts";

/** The handlers of an append that is waiting for them. */
interface HandledAppend {
  core: SessionTree;
  /** Set once the append no longer waits. */
  isOver: boolean;
  /** The append whose handler brought this one about, in another session. */
  outer: HandledAppend | undefined;
}

const handled = new AsyncLocalStorage<HandledAppend>();

/** Asks the handlers of an append, so that {@link refuseNestedAppend} knows what happens inside of them. */
export async function askAppendHandlers<Answer>(
  core: SessionTree,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  const append: HandledAppend = { core, isOver: false, outer: handled.getStore() };
  try {
    return await handled.run(append, ask);
  } finally {
    append.isOver = true;
  }
}

/**
 * Refuses an append that would wait for the append which waits for it. Later, and in other sessions, the same handler
 * may append what it likes.
 *
 * @throws EngineError `nested-append`
 */
export function refuseNestedAppend(core: SessionTree): void {
  for (let append = handled.getStore(); append; append = append.outer) {
    if (append.core !== core || append.isOver) continue;
    throw new EngineError(
      "nested-append",
      "A handler of entry_before_append cannot append to the session that waits for its answer; do it in entry_appended.",
    );
  }
}
