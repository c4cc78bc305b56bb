import { useState } from "preact/hooks";
import { TYPING, useAnswer } from "../source/observe.ts";
import { ask, type PageSource, type ShownSession } from "../source/page-source.ts";
import { formatBytes, formatTime } from "../text/numbers.ts";
import { formatAddress } from "./address.ts";

/** A place where a text stands, in any session. */
interface Hit {
  key: string;
  sessionId: string;
  entryId: string;
  role: string;
  snippet: string;
  onPath: boolean;
}

/** Sessions that are listed at first. */
const FIRST_SHOWN = 100;

/** All sessions, and search over everything they say. */
export function SessionList({ source }: { source: PageSource }) {
  const [query, setQuery] = useState("");
  const [shown, setShown] = useState(FIRST_SHOWN);
  const wanted = query.trim().toLowerCase();
  const { answer, error } = useAnswer(() => source.list(), [source]);
  const sessions = answer ?? [];
  const named = sessions.filter((session) => wordsOf(session).includes(wanted));
  return (
    <main class="session-list">
      <h1>Sessions</h1>
      <input
        type="search"
        class="search"
        placeholder="Search everything that was said"
        aria-label="Search everything that was said"
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
      />
      {wanted.length > 1 && source.isServed && <Hits query={query.trim()} sessions={sessions} />}
      <ul>
        {named.slice(0, shown).map((session) => (
          <li key={session.key}>
            <a class="session" href={formatAddress({ session: session.key, tab: "conversation" })}>
              <bdi class="title">{session.name ?? session.firstMessage ?? session.id}</bdi>
              <span class="quiet">
                <bdi>{session.cwd}</bdi> · {formatTime(session.modified)} · {formatBytes(session.bytes)}
                {session.agent === "pi" ? " · Pi" : ""}
              </span>
            </a>
          </li>
        ))}
      </ul>
      {error && <p class="failure">{error.message}</p>}
      {answer && named.length === 0 && (
        <p class="quiet">
          {answer.length === 0 ? "There are no sessions here." : "No session is named like this."}
        </p>
      )}
      {named.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + 500)}>
          Show more of {named.length}
        </button>
      )}
    </main>
  );
}

const wordsOf = ({ name, firstMessage, id, cwd }: ShownSession): string =>
  [name, firstMessage, id, cwd].join("\n").toLowerCase();

function Hits({ query, sessions }: { query: string; sessions: readonly ShownSession[] }) {
  const { answer, error } = useAnswer(() => ask<Hit[]>("api/search", { q: query }), [query], TYPING);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet">Searching…</p>;
  return (
    <section aria-label="Found" class="hits">
      <h2>{answer.length === 0 ? "Nothing was said like this" : `Found ${answer.length} times`}</h2>
      <ul>
        {answer.map(({ key, entryId, role, snippet }) => (
          <li key={`${key} ${entryId}`}>
            <a class="session" href={formatAddress({ session: key, tab: "conversation", entry: entryId })}>
              <bdi class="title">{snippet}</bdi>
              <span class="quiet">
                {role} · <bdi>{titleOf(sessions, key)}</bdi>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function titleOf(sessions: readonly ShownSession[], key: string): string {
  const session = sessions.find((candidate) => candidate.key === key);
  return session?.name ?? session?.firstMessage ?? key;
}
