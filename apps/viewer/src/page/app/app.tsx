import { agentTitle, otherAgents } from "@espalier/interop";
import { projectName } from "@espalier/session-tree";
import { type ComponentChildren, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ROW_KINDS } from "../../model/outline.ts";
import type { FoundSession } from "../../server/open-sessions.ts";
import { followEvents, TYPING, useAddressText, useAnswer, useEvent } from "../source/observe.ts";
import {
  ask,
  embeddedBytes,
  type LocalSource,
  localSource,
  type PageSource,
  type ShownSession,
  servedSource,
} from "../source/page-source.ts";
import { formatBytes, formatMany, formatTime, formatWhen } from "../text/numbers.ts";
import { showControls } from "../text/visible-controls.ts";
import { type Address, formatAddress, goTo, type ListChoice, parseAddress } from "./address.ts";
import { SessionView } from "./session-view.tsx";
import { showTheme, ThemeButton } from "./theme.tsx";

interface AppProps {
  /** Sessions of the server; undefined for a page without a server. */
  served: PageSource | undefined;
  /** Sessions in the page, and files that were dropped onto it. */
  local: LocalSource;
}

function App({ served, local }: AppProps) {
  const [address, setAddress] = useState<Address>(() => parseAddress(location.hash));
  const [trouble, setTrouble] = useState("");
  const [dropped, setDropped] = useState(0);
  useEvent("hashchange", () => setAddress(parseAddress(location.hash)));
  const open = async (file: File) => {
    try {
      const key = await local.add(file.name, new Uint8Array(await file.arrayBuffer()));
      setTrouble("");
      setDropped((count) => count + 1);
      goTo({ session: key, tab: "conversation" });
    } catch (error) {
      setTrouble(error instanceof Error ? error.message : String(error));
    }
  };
  useEvent("dragover", (event) => event.preventDefault());
  useEvent("drop", (event) => {
    event.preventDefault();
    for (const file of event.dataTransfer?.files ?? []) void open(file);
  });
  const [only] = local.sessions;
  const session = address.session ?? (served || local.sessions.length > 1 ? null : (only?.key ?? null));
  // The only session of a page is local before the address names it, too: it must keep its key, and its open dialog.
  const isLocal = local.sessions.some(({ key }) => key === session);
  const source = served && !isLocal ? served : local;
  return (
    <>
      {trouble !== "" && (
        <p class="trouble" role="alert">
          {trouble}{" "}
          <button type="button" onClick={() => setTrouble("")}>
            Close
          </button>
        </p>
      )}
      {session !== null ? (
        <SessionView
          // A file that is dropped again may have grown.
          key={`${session} ${isLocal ? dropped : ""}`}
          source={source}
          session={session}
          address={{ ...address, session }}
          report={setTrouble}
        />
      ) : served || local.sessions.length > 0 ? (
        <SessionList source={source} address={address} />
      ) : (
        <DropPlace />
      )}
      <ThemeButton />
    </>
  );
}

/** Page before a session is loaded. */
function DropPlace() {
  return (
    <main class="drop-place">
      <h1>Espalier</h1>
      <p>Drop a session file here.</p>
      <p class="quiet">Nothing of it leaves this page.</p>
    </main>
  );
}

/** Number of sessions that are listed at first. */
const FIRST_SHOWN = 100;

/**
 * List of all sessions with filters, and a search over their content. The address contains the filters, so that Back
 * restores them.
 */
function SessionList({ source, address }: { source: PageSource; address: Address }) {
  const choice = address.list ?? {};
  const choose = (changed: ListChoice) =>
    goTo({ session: null, tab: "conversation", list: { ...choice, ...changed } }, "replace");
  const [query, setQuery] = useAddressText(choice.q, (q) => choose({ q }));
  const [shown, setShown] = useState(FIRST_SHOWN);
  /** Number of changes of the list that the server has reported. */
  const [changes, setChanges] = useState(0);
  useEffect(
    () =>
      source.isServed
        ? followEvents("api/events", "list", () => setChanges((count) => count + 1))
        : undefined,
    [source.isServed],
  );
  const { answer, error } = useAnswer(() => source.list(), [source, changes]);
  const sessions = answer ?? [];
  useEffect(() => {
    document.title = "Sessions · Espalier";
  }, []);
  const isSearched = query.trim().length > 1 && source.isServed;
  const found = useFound(isSearched ? query.trim() : "", choice);
  // A session with a hit is listed there, and not again because of its title.
  const hit = new Set(isSearched ? found.answer?.map(({ key }) => key) : []);
  const chosen = chosenFrom(sessions, { ...choice, q: query }).filter(({ session }) => !hit.has(session.key));
  return (
    <main class="session-list">
      <h1>Sessions</h1>
      <input
        type="search"
        class="search"
        placeholder="Search all messages"
        aria-label="Search all messages"
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && setQuery("")}
      />
      {sessions.length > 1 && <Filters sessions={sessions} choice={choice} choose={choose} />}
      {isSearched && <Hits query={query.trim()} choice={choice} found={found} sessions={answer} />}
      {chosen.length > 0 && (
        <ul class="sessions">
          {chosen.slice(0, shown).map(({ session, runs }) => (
            <li key={session.key}>
              <SessionLine session={session} />
              {runs.length > 0 && <SubAgents runs={runs} />}
            </li>
          ))}
        </ul>
      )}
      {error && <p class="failure">{error.message}</p>}
      {answer?.length === 0 && <NoSession source={source} />}
      {answer && answer.length > 0 && chosen.length === 0 && !isSearched && (
        <p class="quiet">No session matches the text and the filters.</p>
      )}
      {chosen.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + 500)}>
          Show more of {chosen.length}
        </button>
      )}
    </main>
  );
}

const titleOf = ({ name, firstMessage }: ShownSession): string => name || firstMessage || "No prompt yet";

/** Time of the last entry; if no entry has a time, of the last write. */
const timeOf = ({ updatedAt, modified }: ShownSession): string => updatedAt ?? modified;

const DAY = 86_400_000;

/**
 * Returns the sessions that match a filter, or have a sub-agent that matches, each with all its sub-agents, at any depth. A
 * sub-agent is alone if its session is not in the list.
 */
function chosenFrom(sessions: readonly ShownSession[], { q = "", ...choice }: ListChoice) {
  const wanted = q.trim().toLowerCase();
  const fits = (session: ShownSession) => isChosen(session, choice) && wordsOf(session).includes(wanted);
  const begun = new Map(sessions.map(({ id }) => [id, [] as ShownSession[]]));
  const alone = sessions.filter((session) => {
    const { kind, sessionId = "" } = session.parent ?? {};
    const beside = kind === "subagent" ? begun.get(sessionId) : undefined;
    beside?.push(session);
    return !beside;
  });
  return alone.flatMap((session) => {
    const runs = new Set(begun.get(session.id));
    // The set grows during the loop, which visits the added runs too.
    for (const { id } of runs) for (const run of begun.get(id)!) runs.add(run);
    return [session, ...runs].some(fits) ? [{ session, runs: [...runs] }] : [];
  });
}

function isChosen(session: ShownSession, { agent, project, days }: ListChoice): boolean {
  const since = days === undefined ? Number.NEGATIVE_INFINITY : Date.now() - Number(days) * DAY;
  return (
    (agent === undefined || session.agent === agent) &&
    (project === undefined || isWithin(session.cwd, project)) &&
    Date.parse(timeOf(session)) >= since
  );
}

/** Returns whether a folder is another one, or below it. */
const isWithin = (folder: string, other: string): boolean =>
  folder === other || (folder.startsWith(other) && /^[\\/]/.test(folder.slice(other.length)));

const wordsOf = ({ name, firstMessage, id, cwd }: ShownSession): string =>
  [name, firstMessage, id, cwd].join("\n").toLowerCase();

interface SessionLineProps {
  session: ShownSession;
  /** Text to search for in the session. */
  find?: string;
  /** The last fact; default: the session's size. */
  children?: ComponentChildren;
}

function SessionLine({ session, find = "", children }: SessionLineProps) {
  const { key, cwd, bytes, agent = "", parent } = session;
  const time = timeOf(session);
  return (
    <a class="session" href={formatAddress({ session: key, tab: "conversation", find })}>
      <bdi class="title">{titleOf(session)}</bdi>
      <span class="quiet">
        <time dateTime={time} title={formatTime(time)}>
          {formatWhen(time)}
        </time>
        {agent !== "" && agent !== "espalier" && <span>{agentTitle(agent)}</span>}
        {cwd !== "" && <bdi title={cwd}>{projectName(cwd)}</bdi>}
        {parent?.kind === "fork" && <span title={`Forked from ${parent.sessionId}`}>fork</span>}
        {children ?? <span>{formatBytes(bytes)}</span>}
      </span>
    </a>
  );
}

function SubAgents({ runs }: { runs: readonly ShownSession[] }) {
  return (
    <details class="sub-agents">
      <summary>{formatMany(runs.length, "sub-agent")}</summary>
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

type FilterValues = readonly (readonly [value: string, name: string])[];

const AGES: FilterValues = [
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
  const filters: [name: "days" | "agent" | "project", label: string, all: string, values: FilterValues][] = [
    ["days", "Time", "any time", AGES],
    ["agent", "Agent", "all agents", agents.map((agent) => [agent, agentTitle(agent)])],
    ["project", "Project", "all projects", projects.map((cwd) => [cwd, nameAmong(projects, cwd)])],
  ];
  return (
    <div class="filters">
      {filters.map(([name, label, all, values]) => (
        <select
          key={name}
          aria-label={label}
          class={choice[name] ? "chosen" : ""}
          value={choice[name] ?? ""}
          onChange={(event) => choose({ [name]: event.currentTarget.value })}
        >
          <option value="">{all}</option>
          {values.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      ))}
    </div>
  );
}

const distinct = (values: readonly string[]): string[] =>
  [...new Set(values)].filter((value) => value !== "");

/** Name of a project: its folder's name, or the whole path if several folders have this name. */
const nameAmong = (projects: readonly string[], cwd: string): string =>
  projects.filter((other) => projectName(other) === projectName(cwd)).length > 1 ? cwd : projectName(cwd);

const CONVERTED = otherAgents.filter(({ isConverted }) => isConverted);

/** An empty list. It names the sessions of other agents that can be imported. */
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
        To import them, run{" "}
        {CONVERTED.map(({ agent }, at) => (
          <span key={agent}>
            {at > 0 && " or "}
            <code>espalier import {agent} --all</code>
          </span>
        ))}{" "}
        in a terminal. This list shows them as they come; the sources are only read.
      </p>
    </div>
  );
}

/** Maximum number of sessions that the server finds. */
const MOST_FOUND = 100;

const ROLES: Readonly<Record<string, string>> = {
  assistant: ROW_KINDS.a,
  toolResult: ROW_KINDS.t,
  bashExecution: ROW_KINDS.b,
  custom: ROW_KINDS.x,
  compactionSummary: ROW_KINDS.c,
  branchSummary: ROW_KINDS.f,
};

/** Returns the sessions in which a text was found, newest first; undefined for an empty text, and before the answer. */
function useFound(q: string, { agent = "", project = "", days = "" }: ListChoice) {
  const wanted = [q, agent, project, days].join("\n");
  const since = days === "" ? "" : new Date(Date.now() - Number(days) * DAY).toISOString();
  const given = Object.entries({ q, agent, project, since }).filter(([, value]) => value !== "");
  const { answer, error, of } = useAnswer(
    async (signal) =>
      q === "" ? undefined : ask<FoundSession[]>("api/search", Object.fromEntries(given), signal),
    [wanted],
    TYPING,
  );
  return { answer: of === wanted ? answer : undefined, error };
}

interface HitsProps {
  query: string;
  choice: ListChoice;
  found: ReturnType<typeof useFound>;
  /** All sessions; undefined while the list is read. */
  sessions: readonly ShownSession[] | undefined;
}

/** Sessions in which a text was found, the newest first, each with the first messages that have it. */
function Hits({ query, choice, found: { answer, error }, sessions }: HitsProps) {
  const { agent = "", project = "", days = "" } = choice;
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer || !sessions) return <p class="quiet">Searching…</p>;
  const isFiltered = `${agent}${project}${days}` !== "";
  const none = isFiltered ? "No message of the chosen sessions has this text" : "No message has this text";
  return (
    <section aria-label="Found" class="hits">
      <h2>{answer.length === 0 ? none : `Found in ${formatMany(answer.length, "session")}`}</h2>
      {answer.length >= MOST_FOUND && (
        <p class="quiet">These are the newest {MOST_FOUND}. A longer text finds older ones.</p>
      )}
      <ul>
        {answer.map((found) => {
          const session = sessions.find(({ key }) => key === found.key);
          return session && <FoundLines key={found.key} session={session} found={found} query={query} />;
        })}
      </ul>
    </section>
  );
}

interface FoundLinesProps {
  session: ShownSession;
  found: FoundSession;
  query: string;
}

/** A session with the first places of a text; its title leads to the search within it, which has them all. */
function FoundLines({ session, found: { count, hasMore, hits }, query }: FoundLinesProps) {
  const place = { session: session.key, tab: "conversation", find: query } as const;
  return (
    <li>
      <SessionLine session={session} find={query}>
        <span>{hasMore ? `over ${count} messages` : formatMany(count, "message")}</span>
      </SessionLine>
      <ul class="places">
        {hits.map(({ entryId, role, snippet }) => (
          <li key={entryId}>
            <a class="session" href={formatAddress({ ...place, entry: entryId })}>
              <span class="quiet">{Object.hasOwn(ROLES, role) ? ROLES[role] : role}</span>{" "}
              <bdi class="snippet">
                <Marked text={snippet} query={query} />
              </bdi>
            </a>
          </li>
        ))}
      </ul>
    </li>
  );
}

/** A text in which the first match of a query is highlighted. */
function Marked({ text, query }: { text: string; query: string }) {
  const at = text.toLowerCase().indexOf(query.toLowerCase());
  // If the lower-case text has another length, its offsets do not fit.
  if (at < 0 || text.toLowerCase().length !== text.length) return <>{text}</>;
  const end = at + query.length;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, end)}</mark>
      {text.slice(end)}
    </>
  );
}

showTheme();
showControls();

const root = document.getElementById("app")!;
const local = localSource();

try {
  const bytes = await embeddedBytes();
  if (bytes) await local.add("this page", bytes);
  render(<App served={servedSource()} local={local} />, root);
} catch (error) {
  root.textContent = error instanceof Error ? error.message : String(error);
}
