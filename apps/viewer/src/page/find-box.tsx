import { useState } from "preact/hooks";
import type { FoundText } from "../model/find-text.ts";
import { TYPING, useAnswer } from "./observe.ts";
import type { SessionModel } from "./session-model.ts";

interface FindBoxProps {
  model: SessionModel;
  select: (row: number) => void;
}

/** Finds entries of the session by what they say. */
export function FindBox({ model, select }: FindBoxProps) {
  const [query, setQuery] = useState("");
  const wanted = query.trim();
  const { answer, error } = useAnswer<{ query: string; found: FoundText[] }>(
    async () => ({ query: wanted, found: wanted.length < 2 ? [] : await model.reader.find(wanted) }),
    [model, wanted, model.rows.length],
    TYPING,
  );
  // What was found for the letters before stays in sight until more is known.
  const found = wanted.length < 2 ? [] : (answer?.found ?? []);
  const isFresh = answer?.query === wanted;
  return (
    <search class="find">
      <input
        type="search"
        id="find"
        placeholder="Find in this session  /"
        aria-label="Find in this session"
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") setQuery("");
          const [first] = found;
          if (event.key === "Enter" && first && isFresh) select(first.row);
        }}
      />
      {wanted.length >= 2 && (answer || error) && (
        <ul class="found">
          {found.map(({ row, snippet }) => (
            <li key={row}>
              <button
                type="button"
                class="link"
                onClick={() => {
                  select(row);
                  setQuery("");
                }}
              >
                <bdi>{snippet}</bdi>
              </button>
            </li>
          ))}
          {error && <li class="failure">{error.message}</li>}
          {isFresh && found.length === 0 && <li class="quiet">Nothing here says this.</li>}
        </ul>
      )}
    </search>
  );
}
