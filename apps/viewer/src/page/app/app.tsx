import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { followEvents } from "../source/observe.ts";
import {
  embeddedBytes,
  type LocalSource,
  localSource,
  type PageSource,
  servedSource,
} from "../source/page-source.ts";
import { SessionModel } from "../source/session-model.ts";
import { showControls, visibleControls } from "../text/visible-controls.ts";
import { type Address, goTo, parseAddress } from "./address.ts";
import { SessionList } from "./session-list.tsx";
import { SessionView } from "./session-view.tsx";

interface AppProps {
  /** Sessions of the server; undefined for a page without a server. */
  served: PageSource | undefined;
  /** Sessions in the page, and files that were dropped onto it. */
  local: LocalSource;
}

/** The page: the list, or one session. */
function App({ served, local }: AppProps) {
  const [address, setAddress] = useState<Address>(() => parseAddress(location.hash));
  const [trouble, setTrouble] = useState("");
  const [dropped, setDropped] = useState(0);
  const theme = useTheme();
  useEffect(() => {
    const follow = () => setAddress(parseAddress(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useDrop(async (file) => {
    try {
      const key = await local.add(file.name, new Uint8Array(await file.arrayBuffer()));
      setTrouble("");
      setDropped((count) => count + 1);
      goTo({ session: key, tab: "conversation" });
    } catch (error) {
      setTrouble(error instanceof Error ? error.message : String(error));
    }
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
        <OpenedSession
          // A file that is dropped again may have grown.
          key={`${session} ${isLocal ? dropped : ""}`}
          source={source}
          session={session}
          address={{ ...address, session }}
          theme={theme.shown}
          report={setTrouble}
        />
      ) : served || local.sessions.length > 0 ? (
        <SessionList source={source} address={address} />
      ) : (
        <DropPlace />
      )}
      <ThemeButton theme={theme} />
    </>
  );
}

interface OpenedSessionProps {
  source: PageSource;
  session: string;
  address: Address;
  theme: string;
  /** Shows a message above the session. */
  report: (trouble: string) => void;
}

function OpenedSession({ source, session, address, theme, report }: OpenedSessionProps) {
  const [model, setModel] = useState<SessionModel>();
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    let ended = false;
    let end = () => {};
    void (async () => {
      try {
        const opened = await SessionModel.open(await source.open(session));
        if (ended) return;
        setModel(opened);
        document.title = `${visibleControls(opened.facts.title)} · Espalier`;
        if (source.isServed) end = followSession(session, opened);
        // The session is in use by then, so a failure does not take its place.
        opened.readCosts().catch((error: Error) => !ended && report(error.message));
      } catch (error) {
        setTrouble(error instanceof Error ? error.message : String(error));
      }
    })();
    return () => {
      ended = true;
      end();
    };
  }, [source, session]);
  if (trouble !== "") {
    return (
      <main class="session-list">
        <p class="failure" role="alert">
          {trouble}
        </p>
        <p>
          <a href="#/">All sessions</a>
        </p>
      </main>
    );
  }
  if (!model) return <p class="quiet padded">Opening…</p>;
  return (
    <SessionView
      model={model}
      address={address}
      theme={theme}
      served={source.isServed ? session : undefined}
      canWrite={source.canWrite}
    />
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

/** Loads files that are dropped anywhere on the page. */
function useDrop(take: (file: File) => Promise<void>): void {
  useEffect(() => {
    const over = (event: DragEvent) => event.preventDefault();
    const drop = (event: DragEvent) => {
      event.preventDefault();
      for (const file of event.dataTransfer?.files ?? []) void take(file);
    };
    addEventListener("dragover", over);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", drop);
    };
  }, [take]);
}

type Theme = "light" | "dark";

interface ThemeChoice {
  /** Current theme of the page. */
  shown: Theme;
  turn(): void;
}

const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** Light or dark theme: the system's setting until the user chooses. */
function useTheme(): ThemeChoice {
  const [system, setSystem] = useState<Theme>(systemDark.matches ? "dark" : "light");
  const [chosen, setChosen] = useState<Theme>();
  const shown = chosen ?? system;
  useEffect(() => {
    const follow = () => setSystem(systemDark.matches ? "dark" : "light");
    systemDark.addEventListener("change", follow);
    return () => systemDark.removeEventListener("change", follow);
  }, []);
  document.documentElement.dataset["theme"] = shown;
  return { shown, turn: () => setChosen(shown === "dark" ? "light" : "dark") };
}

function ThemeButton({ theme }: { theme: ThemeChoice }) {
  return (
    <button
      type="button"
      class="theme"
      aria-label={`Change to ${theme.shown === "dark" ? "light" : "dark"}`}
      onClick={theme.turn}
    >
      {theme.shown === "dark" ? "☾" : "☀"}
    </button>
  );
}

/** Reads new entries of a session when the server reports them. Returns a function that stops this. */
const followSession = (session: string, model: SessionModel): (() => void) =>
  followEvents(`api/sessions/${encodeURIComponent(session)}/events`, "pulse", (data) => {
    const { length } = JSON.parse(data) as { length: number };
    // A failure needs no handling: the next event, sent when the server is back, reads the same entries.
    if (length !== model.facts.length) model.grow().catch(() => undefined);
  });

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
