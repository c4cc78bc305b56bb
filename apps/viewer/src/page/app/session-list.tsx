import { useEffect, useState } from "preact/hooks";
import { TYPING, useAddressText, useAnswer } from "../source/observe.ts";
import { ask, type PageSource, type ShownSession } from "../source/page-source.ts";
import { formatAge, formatBytes, formatCount, formatTime } from "../text/numbers.ts";
import { type Address, formatAddress, goTo, type ListChoice } from "./address.ts";

/** Sessions that are listed at first. */
const FIRST_SHOWN = 100;

/** All sessions, filtered, and search over everything they say. The address names what was chosen, so that Back returns to it. */
export function SessionList({ source, address }: { source: PageSource; address: Address }) {
  const choice = address.list ?? {};
  const choose = (changed: ListChoice) =>
    goTo({ session: null, tab: "conversation", list: { ...choice, ...changed } }, "replace");
  const [query, setQuery] = useAddressText(choice.q, (q) => choose({ q }));
  const [shown, setShown] = useState(FIRST_SHOWN);
  const changes = useListChanges(source);
  const { answer, error } = useAnswer(() => source.list(), [source, changes]);
  const sessions = answer ?? [];
  useEffect(() => {
    document.title = "Sessions · Espalier";
  }, []);
  const chosen = chosenFrom(sessions, { ...choice, q: query });
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
        onKeyDown={(event) => event.key === "Escape" && setQuery("")}
      />
      {sessions.length > 1 && <Filters sessions={sessions} choice={choice} choose={choose} />}
      {query.trim().length > 1 && source.isServed && <Hits query={query.trim()} sessions={sessions} />}
      <ul class="sessions">
        {chosen.slice(0, shown).map(({ session, runs }) => (
          <li key={session.key}>
            <SessionLine session={session} />
            {runs.length > 0 && <SubAgents runs={runs} />}
          </li>
        ))}
      </ul>
      {error && <p class="failure">{error.message}</p>}
      {answer &&
        chosen.length === 0 &&
        (answer.length === 0 ? <NoSession source={source} /> : <NoneChosen />)}
      {chosen.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + 500)}>
          Show more of {chosen.length}
        </button>
      )}
    </main>
  );
}

const NoneChosen = () => <p class="quiet">No session has this name, agent, project and age.</p>;

/** Counts the changes of the list that the server tells of; stays 0 where there is none. A hidden page is not told. */
function useListChanges(source: PageSource): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    if (!source.isServed) return;
    let events: EventSource | undefined;
    const turn = () => {
      const wasClosed = events !== undefined && events.readyState === EventSource.CLOSED;
      events?.close();
      events = undefined;
      if (document.hidden) return;
      events = new EventSource("api/events");
      events.addEventListener("list", () => setChanges((count) => count + 1));
      if (wasClosed) setChanges((count) => count + 1);
    };
    turn();
    document.addEventListener("visibilitychange", turn);
    return () => {
      document.removeEventListener("visibilitychange", turn);
      events?.close();
    };
  }, [source]);
  return changes;
}

const AGENTS: Readonly<Record<string, string>> = {
  "claude-code": "Claude Code",
  codex: "Codex",
  pi: "Pi",
  espalier: "Espalier",
};

const agentName = (agent: string): string => (Object.hasOwn(AGENTS, agent) ? AGENTS[agent]! : agent);

/** Last part of a folder. */
const projectName = (cwd: string): string => /([^/\\]+)[/\\]*$/.exec(cwd)?.[1] ?? cwd;

const titleOf = ({ name, firstMessage }: ShownSession): string => name || firstMessage || "No prompt yet";

/** Time of the last entry; of the last write, where no entry has one. */
const timeOf = ({ updatedAt, modified }: ShownSession): string => updatedAt ?? modified;

const DAY = 86_400_000;

/** A session of the list, with the runs of its sub-agents. */
interface ChosenSession {
  session: ShownSession;
  runs: ShownSession[];
}

/** Sessions that fit a choice. A run of a sub-agent is under its session, or alone where that one is not in the list. */
function chosenFrom(
  sessions: readonly ShownSession[],
  { q = "", agent, project, days }: ListChoice,
): ChosenSession[] {
  const wanted = q.trim().toLowerCase();
  const since = days === undefined ? Number.NEGATIVE_INFINITY : Date.now() - Number(days) * DAY;
  const fits = (session: ShownSession) =>
    (agent === undefined || session.agent === agent) &&
    (project === undefined || session.cwd === project) &&
    Date.parse(timeOf(session)) >= since &&
    wordsOf(session).includes(wanted);
  const runs = new Map<string, ShownSession[]>();
  const ids = new Set(sessions.map(({ id }) => id));
  const isUnder = ({ parent }: ShownSession) => parent?.kind === "subagent" && ids.has(parent.sessionId);
  for (const session of sessions) {
    if (!isUnder(session)) continue;
    const { sessionId } = session.parent!;
    runs.set(sessionId, [...(runs.get(sessionId) ?? []), session]);
  }
  return sessions.flatMap((session) => {
    const own = runs.get(session.id) ?? [];
    return !isUnder(session) && (fits(session) || own.some(fits)) ? [{ session, runs: own }] : [];
  });
}

const wordsOf = ({ name, firstMessage, id, cwd }: ShownSession): string =>
  [name, firstMessage, id, cwd].join("\n").toLowerCase();

function SessionLine({ session }: { session: ShownSession }) {
  const { key, cwd, bytes, agent = "", parent } = session;
  const time = timeOf(session);
  const age = formatAge(Date.now() - Date.parse(time));
  return (
    <a class="session" href={formatAddress({ session: key, tab: "conversation" })}>
      <bdi class="title">{titleOf(session)}</bdi>
      <span class="quiet">
        <time dateTime={time} title={formatTime(time)}>
          {age}
        </time>
        {agent !== "" && agent !== "espalier" && <span>{agentName(agent)}</span>}
        {cwd !== "" && <bdi title={cwd}>{projectName(cwd)}</bdi>}
        {parent?.kind === "fork" && <span title={`Forked from ${parent.sessionId}`}>fork</span>}
        <span>{formatBytes(bytes)}</span>
      </span>
    </a>
  );
}

function SubAgents({ runs }: { runs: readonly ShownSession[] }) {
  return (
    <details class="sub-agents">
      <summary>{formatCount(runs.length, "sub-agent")}</summary>
      <ul>
        {runs.map((run) => (
          <li key={run.key}>
            <SessionLine session={run} />
          </li>
        ))}
      </ul>
    </details>
  );
}

const AGES: readonly [days: string, name: string][] = [
  ["1", "last 24 hours"],
  ["7", "last 7 days"],
  ["30", "last 30 days"],
  ["365", "last year"],
];

interface FiltersProps {
  sessions: readonly ShownSession[];
  choice: ListChoice;
  choose: (changed: ListChoice) => void;
}

function Filters({ sessions, choice, choose }: FiltersProps) {
  const agents = distinct(sessions.map(({ agent }) => agent ?? ""));
  const projects = distinct(sessions.map(({ cwd }) => cwd)).sort((a, b) =>
    projectName(a).localeCompare(projectName(b)),
  );
  return (
    <div class="filters">
      <Filter
        label="Time"
        all="any time"
        value={choice.days}
        values={AGES}
        choose={(days) => choose({ days })}
      />
      <Filter
        label="Agent"
        all="all agents"
        value={choice.agent}
        values={agents.map((agent) => [agent, agentName(agent)])}
        choose={(agent) => choose({ agent })}
      />
      <Filter
        label="Project"
        all="all projects"
        value={choice.project}
        values={projects.map((cwd) => [cwd, nameAmong(projects, cwd)])}
        choose={(project) => choose({ project })}
      />
    </div>
  );
}

const distinct = (values: readonly string[]): string[] =>
  [...new Set(values)].filter((value) => value !== "");

/** Name of a project: its folder's, or the whole path where several have that name. */
const nameAmong = (projects: readonly string[], cwd: string): string =>
  projects.filter((other) => projectName(other) === projectName(cwd)).length > 1 ? cwd : projectName(cwd);

interface FilterProps {
  label: string;
  /** Name of the choice that leaves nothing out. */
  all: string;
  value: string | undefined;
  values: readonly (readonly [value: string, name: string])[];
  choose: (value: string) => void;
}

function Filter({ label, all, value = "", values, choose }: FilterProps) {
  return (
    <select
      aria-label={label}
      class={value === "" ? "" : "chosen"}
      value={value}
      onChange={(event) => choose(event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {values.map(([of, name]) => (
        <option key={of} value={of}>
          {name}
        </option>
      ))}
    </select>
  );
}

/** An empty list: says which sessions of other agents could be imported. */
function NoSession({ source }: { source: PageSource }) {
  const { answer } = useAnswer(
    async () => (source.isServed ? ask<{ found: string }>("api/found") : { found: "" }),
    [source],
  );
  const found = answer?.found ?? "";
  if (found === "") return <p class="quiet">There are no sessions here yet.</p>;
  return (
    <div class="found-agents">
      <p>
        There are no sessions here yet. On this machine there are <b>{found}</b>.
      </p>
      <p>
        To import them, run <code>espalier import claude-code --all</code> or{" "}
        <code>espalier import codex --all</code> in a terminal. This list shows them as they come; the sources
        are only read.
      </p>
    </div>
  );
}

/** A place in any session where a text was found. */
interface Hit {
  key: string;
  sessionId: string;
  entryId: string;
  role: string;
  snippet: string;
  onPath: boolean;
}

function Hits({ query, sessions }: { query: string; sessions: readonly ShownSession[] }) {
  const { answer, error } = useAnswer(() => ask<Hit[]>("api/search", { q: query }), [query], TYPING);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet">Searching…</p>;
  return (
    <section aria-label="Found" class="hits">
      <h2>{answer.length === 0 ? "No message has this text" : `Found ${answer.length} times`}</h2>
      <ul>
        {answer.map(({ key, entryId, role, snippet }) => (
          <li key={`${key} ${entryId}`}>
            <a
              class="session"
              href={formatAddress({ session: key, tab: "conversation", entry: entryId, find: query })}
            >
              <bdi class="title">{snippet}</bdi>
              <span class="quiet">
                <span>{role}</span>
                <bdi>{titleOfKey(sessions, key)}</bdi>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function titleOfKey(sessions: readonly ShownSession[], key: string): string {
  const session = sessions.find((candidate) => candidate.key === key);
  return session ? titleOf(session) : key;
}
