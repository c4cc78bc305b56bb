import type { SessionModel } from "./session-model.ts";

/** Milliseconds after which a server that refused to tell is asked again; one that went away the browser asks itself. */
const AGAIN = 5_000;

/**
 * Takes in what a session grows by, as the server tells of it; returns what ends that. Nobody is told while nobody
 * looks: browsers keep few connections to one server.
 */
export function followSession(session: string, model: SessionModel): () => void {
  let events: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    clearTimeout(timer);
    events?.close();
    events = undefined;
  };
  const turn = () => {
    end();
    if (document.hidden) return;
    const source = new EventSource(`api/sessions/${encodeURIComponent(session)}/events`);
    events = source;
    source.addEventListener("pulse", (event) => {
      const { length } = JSON.parse(event.data) as { length: number };
      // What fails now is made up for by the next pulse, which comes as soon as the server is there again.
      if (length !== model.facts.length) model.grow().catch(() => undefined);
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED && events === source) timer = setTimeout(turn, AGAIN);
    });
  };
  turn();
  document.addEventListener("visibilitychange", turn);
  return () => {
    document.removeEventListener("visibilitychange", turn);
    end();
  };
}
