import { type EventBus, EventType } from "@espalier/policies";
import type { AgentEvent } from "./agent-event.ts";

/** Tells of offloads, pictures left out and compactions in the agent's terms, whoever brought them about: a policy, an overflow, a user. */
export function tellSessionEvents(events: EventBus, tell: (event: AgentEvent) => void): void {
  events.subscribe(EventType.PROGRESS_UPDATE, ({ message }) => tell({ type: "compact_start", message }));
  events.subscribe(EventType.STATE_CHANGED, (change) => {
    if (change.name === "session.offload") tell({ type: "offload_done", ...change.data });
    else if (change.name === "session.pictures") tell({ type: "pictures_left_out", ...change.data });
    else tell({ type: "compact_done", ...change.data });
  });
  events.subscribe(EventType.ERROR, ({ message }) => tell({ type: "compact_failed", message }));
}
