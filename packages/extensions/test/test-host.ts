import {
  type Clock,
  createExtensionHost,
  decideHook,
  type ExtensionReport,
  hookAlias,
  LONG_HANDLER_LIMIT_MS,
  notifyHook,
  transformHook,
} from "@espalier/extensions";

export interface Told {
  words: string[];
  kind?: "inside" | "outside";
  seen?: Set<string>;
}

export interface Plan {
  size: number;
  signal?: AbortSignal;
}

export interface Verdict {
  replacement: { text: string; details?: unknown };
  instructions: string;
  replace: boolean;
  label: string;
}

export interface Letter {
  lines: { text: string }[];
  readonly tags?: Set<string>;
}

export const told = notifyHook<Told>("told");
export const letter = transformHook<Letter, "letter">("letter", {
  field: "letter",
  validate: (value) => (Array.isArray(value.lines) ? undefined : "a letter needs its lines."),
});
export const planned = decideHook<Plan, Verdict>("planned", {
  timeoutMs: LONG_HANDLER_LIMIT_MS,
  fields: { replacement: "one", instructions: "join", replace: "any", label: "one" },
  validate: ({ replacement }, { size }) =>
    replacement && replacement.text.length > size ? `its text is longer than ${size}.` : undefined,
});
/** `told` for events from inside, in another shape. */
export const heard = hookAlias("heard", {
  of: told,
  when: ({ kind }) => kind === "inside",
  map: ({ words }) => ({ count: words.length }),
});
/** `planned` under another name, whose answers say `customInstructions`. */
const foreseen = hookAlias("foreseen", {
  of: planned,
  map: (payload) => ({ preparation: payload }),
  mapAnswer: ({ customInstructions, ...rest }: { customInstructions?: string; cancel?: boolean }) => ({
    ...rest,
    ...(customInstructions !== undefined && { instructions: customInstructions }),
  }),
});

export const hooks = { told, letter, planned, heard, foreseen };

export interface TestContext {
  readonly cwd: string;
  readonly signal?: AbortSignal;
}
export const context: TestContext = { cwd: "/somewhere" };

/** A host with the hooks above, and the reports it made. */
export function createTestHost(clock?: Clock) {
  const reports: ExtensionReport[] = [];
  const host = createExtensionHost<typeof hooks, TestContext>({
    hooks,
    onReport: (report) => reports.push(report),
    ...(clock && { clock }),
  });
  return { host, reports };
}

/** A clock that stands still until it is moved. */
export function createManualClock() {
  let now = 0;
  const timers = new Set<{ at: number; callback: () => void }>();
  const clock: Clock = {
    after(milliseconds, callback) {
      const timer = { at: now + milliseconds, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
  };
  return {
    clock,
    pending: () => timers.size,
    /** Lets what is due happen, and then what follows from it. */
    async advance(milliseconds: number) {
      now += milliseconds;
      for (const timer of [...timers]) {
        if (timer.at > now) continue;
        timers.delete(timer);
        timer.callback();
      }
      await settle();
    },
  };
}

/** Until everything that waits for no timer has happened. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
