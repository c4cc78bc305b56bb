import { useEffect, useReducer, useRef, useState } from "preact/hooks";

/** Draws a component anew whenever something that it shows has changed. */
export function useObserved(observed: { subscribe(observer: () => void): () => void }): void {
  const [, changed] = useReducer<number, void>((count) => count + 1, 0);
  useEffect(() => observed.subscribe(() => changed()), [observed]);
}

/** What is asked for, as far as it is known. `previous` stays until the next answer is there. */
export interface Asked<Answer> {
  answer: Answer | undefined;
  error: Error | undefined;
}

/** Asks again whenever one of `keys` has changed; an answer that comes too late is not shown. */
export function useAnswer<Answer>(ask: () => Promise<Answer>, keys: readonly unknown[]): Asked<Answer> {
  const [asked, setAsked] = useState<Asked<Answer>>({ answer: undefined, error: undefined });
  const turn = useRef(0);
  useEffect(() => {
    const mine = ++turn.current;
    ask().then(
      (answer) => mine === turn.current && setAsked({ answer, error: undefined }),
      (error: Error) => mine === turn.current && setAsked({ answer: undefined, error }),
    );
  }, keys);
  return asked;
}
