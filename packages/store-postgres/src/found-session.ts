import type { SessionHeader } from "@espalier/session-tree";
import type { Extent, SessionPlace } from "./session-place.ts";

/** A session as it was found when it was opened. */
export interface FoundSession {
  place: SessionPlace;
  header: SessionHeader | undefined;
  extent: Extent;
  isPlain: boolean;
}
