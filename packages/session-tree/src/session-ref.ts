import type { SessionRef } from "./session-store.ts";
import { SessionTreeError } from "./session-tree-error.ts";

/**
 * A {@link SessionRef} in one of its two shapes.
 * @throws SessionTreeError `not-found` for what names no session
 */
export function sessionRef(ref: SessionRef): { id: string } | { file: string } {
  if (typeof ref === "string") return { id: ref };
  const { id, file } = (ref ?? {}) as { id?: unknown; file?: unknown };
  if (typeof id === "string" && file === undefined) return { id };
  if (typeof file === "string" && id === undefined) return { file };
  throw new SessionTreeError(
    "not-found",
    "A session is named by its id or by { file }; give one of the two, as a text.",
  );
}
