import { useState } from "preact/hooks";
import type { FoundText } from "../model/find-text.ts";
import { useAnswer } from "./observe.ts";
import type { SessionModel } from "./session-model.ts";

interface FindBoxProps {
  model: SessionModel;
  select: (row: number) => void;
}

/** Finds entries of the session by what they say. */
export function FindBox({ model, select }: FindBoxProps) {
  const [query, setQuery] = useState("");
  const wanted = query.trim();
  const { answer } = useAnswer<FoundText[]>(
    async () => (wanted.length < 2 ? [] : model.reader.find(wanted)),
    [model, wanted, model.rows.length],
  );
  const found = wanted.length < 2 ? [] : (answer ?? []);
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
          if (event.key === "Enter" && first) select(first.row);
        }}
      />
      {wanted.length >= 2 && answer && (
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
          {found.length === 0 && <li class="quiet">Nothing here says this.</li>}
        </ul>
      )}
    </search>
  );
}
