import { useEffect, useReducer, useState } from "preact/hooks";

/** Draws a component anew whenever something that it shows has changed. */
export function useObserved(observed: { subscribe(observer: () => void): () => void }): void {
  const [, changed] = useReducer<number, void>((count) => count + 1, 0);
  useEffect(() => observed.subscribe(() => changed()), [observed]);
}

/** The newest answer to a question: it stays until the next one is there. */
interface Asked<Answer> {
  answer: Answer | undefined;
  error: Error | undefined;
}

/** Milliseconds without a keystroke before a search begins. */
export const TYPING = 180;

/**
 * Asks again whenever one of `keys` has changed, and stayed as it is for `after` milliseconds (default 0); an answer that
 * comes too late is not shown.
 */
export function useAnswer<Answer>(
  ask: () => Promise<Answer>,
  keys: readonly unknown[],
  after = 0,
): Asked<Answer> {
  const [asked, setAsked] = useState<Asked<Answer>>({ answer: undefined, error: undefined });
  useEffect(() => {
    let isWanted = true;
    const answer = () =>
      ask().then(
        (answer) => isWanted && setAsked({ answer, error: undefined }),
        (error: Error) => isWanted && setAsked({ answer: undefined, error }),
      );
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (after === 0) void answer();
    else timer = setTimeout(answer, after);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, keys);
  return asked;
}
