import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

/**
 * Renders a component again when an object that it shows has changed. Observes it before the browser paints, so that no
 * change is missed.
 */
export function useObserved(observed: { subscribe(observer: () => void): () => void }): void {
  const [, changed] = useReducer<number, void>((count) => count + 1, 0);
  useLayoutEffect(() => observed.subscribe(() => changed()), [observed]);
}

/** Newest answer to a request, or its error; it stays until the next answer or error arrives. */
interface Asked<Answer> {
  answer: Answer | undefined;
  error: Error | undefined;
  /** First key of the request that this state answers. */
  of?: unknown;
}

/** Milliseconds without a key before a search begins. */
export const TYPING = 180;

/**
 * Calls `ask` again whenever one of `keys` has changed, and then stayed the same for `after` milliseconds (default 0).
 * Aborts the request before: its answer would not be shown.
 */
export function useAnswer<Answer>(
  ask: (signal: AbortSignal) => Promise<Answer>,
  keys: readonly unknown[],
  after = 0,
): Asked<Answer> {
  const [asked, setAsked] = useState<Asked<Answer>>({ answer: undefined, error: undefined });
  useEffect(() => {
    const asking = new AbortController();
    const { signal } = asking;
    const answer = () =>
      ask(signal).then(
        (answer) => !signal.aborted && setAsked({ answer, error: undefined, of: keys[0] }),
        (error: Error) => !signal.aborted && setAsked({ answer: undefined, error, of: keys[0] }),
      );
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (after === 0) void answer();
    else timer = setTimeout(answer, after);
    return () => {
      asking.abort();
      clearTimeout(timer);
    };
  }, keys);
  return asked;
}

/** Calls the newest `handle` for each event of the window. Begins before the browser paints, so that no event is missed. */
export function useEvent<Name extends keyof WindowEventMap>(
  name: Name,
  handle: (event: WindowEventMap[Name]) => void,
): void {
  const newest = useRef(handle);
  newest.current = handle;
  useLayoutEffect(() => {
    const listen = (event: WindowEventMap[Name]) => newest.current(event);
    addEventListener(name, listen);
    return () => removeEventListener(name, listen);
  }, []);
}

/** Elements that use letters and arrow keys themselves. */
const TAKING = "input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select, dialog";

const OF_SLIDERS = /^(Arrow|Page|Home$|End$)/;

/**
 * Calls back for keys that no element uses itself, for any focus, for example after a click on a text. Not while a dialog
 * is open; keys with Ctrl, Alt or Meta are left to the browser.
 */
export function useKeys(press: (event: KeyboardEvent) => void): void {
  useEvent("keydown", (event) => {
    const target = event.target instanceof Element ? event.target : undefined;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target?.closest(TAKING) || document.querySelector("dialog[open]")) return;
    if (target?.matches("input[type=range]") && OF_SLIDERS.test(event.key)) return;
    press(event);
  });
}

/**
 * Uses the page's own print function for the browser's print key, because only this function loads the whole path
 * first.
 */
export function usePrintKey(print: () => void): void {
  useEvent("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "p") return;
    event.preventDefault();
    print();
  });
}

/**
 * Text of a field that is part of the page's address. It is written to the address when the user stops typing, and
 * follows the address when Back or a link changes it.
 *
 * @param named text in the address
 * @param write writes a text to the address
 */
export function useAddressText(
  named = "",
  write: (text: string) => void,
): [text: string, setText: (text: string) => void] {
  const [text, setText] = useState(named);
  const written = useRef(named);
  // The address may change while the user types.
  const newest = useRef(write);
  newest.current = write;
  useEffect(() => {
    if (text === written.current) return;
    const timer = setTimeout(() => {
      written.current = text;
      newest.current(text);
    }, TYPING);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    if (named === written.current) return;
    written.current = named;
    setText(named);
  }, [named]);
  return [text, setText];
}

/** Milliseconds before another request to a server that refused its events. The browser itself retries a lost connection. */
const AGAIN = 5_000;

/**
 * Follows events of the server, which begin with the current state, while the page is visible: browsers allow only a few
 * connections to one server.
 *
 * @param take receives the data of an event
 * @returns a function that ends the connection
 */
export function followEvents(address: string, name: string, take: (data: string) => void): () => void {
  let events: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    clearTimeout(timer);
    events?.close();
  };
  const turn = () => {
    end();
    if (document.hidden) return;
    const source = new EventSource(address);
    events = source;
    source.addEventListener(name, ({ data }) => take(data));
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
