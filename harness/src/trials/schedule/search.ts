import { createHash } from "node:crypto";
import { halved } from "../../stores.ts";
import { type Call, type Moment, type Outcome, type Progress, replay, type Script } from "./machine.ts";

/** Bounds of a search. */
export interface Bounds {
  /** Processes that may die, each before any of its calls or in the middle of a write. */
  deaths: number;
  /** Calls that may fail. */
  failures: number;
  /** Errors that a failing call may end with; `short` for one that does half. */
  errors: readonly string[];
  /** Maximum number of switches away from a process that could continue; undefined: no limit, so every possible order. */
  switches?: number;
}

/** An end that some order of steps leads to. */
export interface End {
  /** Set when two processes hold the lease at once, or wait for each other for ever. */
  problem?: string;
  moment: Moment;
  acknowledged: readonly string[];
  /** For each process: dead, ended, or what it failed with. */
  processes: readonly { isDead: boolean; failure?: unknown }[];
  /** The steps that led here. */
  trace: () => string;
}

/** A process after some calls: its past and its next call. Two with the same past are one. */
interface Node {
  id: number;
  past: readonly Outcome[];
  progress: Progress;
  children: Map<string, Node>;
  /** Of a process that waits: the calls since it waited before, and that moment. */
  round: string;
  waitedBefore: Node | undefined;
}

let nodes = 0;
const newNode = (past: readonly Outcome[], progress: Progress, round = "", waitedBefore?: Node): Node => ({
  id: nodes++,
  past,
  progress,
  children: new Map(),
  round,
  waitedBefore,
});

const isWaiting = ({ progress }: Node): boolean => progress.next?.name === "pause";

interface Process {
  node: Node;
  isDead: boolean;
  /** While it waits: the world when it began to wait. Nothing changes for it until that does. */
  since: string;
  /** Looks since then, although nothing had changed. */
  looks: number;
}

interface State {
  moment: Moment;
  processes: readonly Process[];
  last: number;
  deaths: number;
  failures: number;
  switches: number;
}

interface Choice {
  process: number;
  act: "step" | "die" | "die in the middle" | string;
}

/** States that were met, as digests: millions of them are within reach, of which a set can hold some and a heap few. */
class Met {
  readonly #parts = Array.from({ length: 256 }, () => new Set<string>());
  size = 0;

  /** True the first time that a state is met. */
  isNew(key: string): boolean {
    const digest = createHash("sha1").update(key).digest("binary").slice(0, 12);
    const part = this.#parts[digest.charCodeAt(0)]!;
    if (part.has(digest)) return false;
    part.add(digest);
    this.size += 1;
    return true;
  }
}

/**
 * Tries every order of the steps of some processes, up to the bounds. A state that was visited before is not
 * continued.
 *
 * @param isEnough receives each end; true ends the search
 * @returns the number of states
 */
export async function searchSchedules(
  start: Moment,
  scripts: readonly Script[],
  bounds: Bounds,
  isEnough: (end: End) => Promise<boolean>,
): Promise<number> {
  const met = new Met();
  const roots = await Promise.all(
    scripts.map(async (script, at) => newNode([], await replay(script, at + 1, []))),
  );
  const first: State = {
    moment: start,
    processes: roots.map((node) => ({ node, isDead: false, since: "", looks: 0 })),
    last: -1,
    deaths: bounds.deaths,
    failures: bounds.failures,
    switches: bounds.switches ?? 0,
  };
  const frames: { state: State; choices: Choice[]; label: string }[] = [];
  /** Enters a state. Returns true when the search ends there. */
  const enter = async (state: State, label: string): Promise<boolean> => {
    if (!met.isNew(keyOf(state, bounds))) return false;
    const { moment, processes } = state;
    const alive = processes.filter(({ isDead }) => !isDead);
    const isHeldTwice = alive.filter(({ node }) => node.progress.isHolding).length > 1;
    const choices = isHeldTwice ? [] : choicesOf(state, bounds);
    if (choices.length > 0) {
      frames.push({ state, choices, label });
      return false;
    }
    const isStuck = alive.some(({ node }) => node.progress.next);
    const labels = [...frames.map((frame) => frame.label), label];
    return isEnough({
      ...(isStuck && { problem: "A process waits for ever." }),
      ...(isHeldTwice && { problem: "Two processes hold what only one may hold." }),
      moment,
      acknowledged: processes.flatMap(({ node }) => node.progress.acknowledged),
      processes: processes.map(({ node, isDead }) => ({ isDead, failure: node.progress.failure })),
      trace: () => traceOf(labels),
    });
  };
  let isOver = await enter(first, "");
  while (frames.length > 0 && !isOver) {
    const frame = frames.at(-1)!;
    const choice = frame.choices.pop();
    if (!choice) {
      frames.pop();
      continue;
    }
    const call = frame.state.processes[choice.process]!.node.progress.next!;
    isOver = await enter(await after(frame.state, choice, scripts), labelOf(choice, call));
  }
  return met.size;
}

function keyOf({ moment, processes, last, deaths, failures, switches }: State, bounds: Bounds): string {
  const each = processes.map(
    ({ node, isDead, since, looks }) => `${node.id}${isDead ? "x" : ""}~${since}~${looks}`,
  );
  const order = bounds.switches === undefined ? "" : `${last}/${switches}`;
  return `${moment.key}#${each.join("#")}#${deaths}/${failures}#${order}`;
}

/** A process that waits is not chosen while nothing has changed, but where all the others wait too. */
function choicesOf(state: State, bounds: Bounds): Choice[] {
  const { processes, last, deaths, failures, switches } = state;
  const alive = processes.flatMap(({ node, isDead }, at) => (isDead || !node.progress.next ? [] : [at]));
  const awake = alive.filter((at) => isAwake(state, at));
  const able = awake.length > 0 ? awake : alive.filter((at) => processes[at]!.looks < 2);
  const isBound = bounds.switches !== undefined && switches === 0 && able.includes(last);
  const chosen = isBound && !isWaiting(processes[last]!.node) ? [last] : able;
  return chosen.flatMap((process) => {
    const { name } = processes[process]!.node.progress.next!;
    const isCall = name !== "pause" && name !== "mayBeRunning";
    const acts: string[] = ["step"];
    if (deaths > 0) acts.push("die");
    if (deaths > 0 && name === "writeSync") acts.push("die in the middle");
    if (failures > 0 && isCall)
      acts.push(
        ...bounds.errors.filter((error) => error !== "short" || name === "writeSync" || name === "readSync"),
      );
    return acts.map((act) => ({ process, act }));
  });
}

async function after(state: State, { process, act }: Choice, scripts: readonly Script[]): Promise<State> {
  const before = state.processes[process]!;
  const isSwitch = state.last >= 0 && state.last !== process && isAwake(state, state.last);
  const next = { ...state, last: process, switches: state.switches - (isSwitch ? 1 : 0) };
  const call = before.node.progress.next!;
  const number = process + 1;
  if (act === "die" || act === "die in the middle") {
    const moment = act === "die" ? state.moment : state.moment.after(number, half(call)).moment;
    const processes = state.processes.with(process, { ...before, isDead: true, since: "", looks: 0 });
    return { ...next, moment: moment.without(number), processes, deaths: state.deaths - 1 };
  }
  const isFailing = act !== "step";
  const { moment, outcome } = isFailing
    ? failed(state.moment, number, call, act)
    : state.moment.after(number, call);
  const node = await follow(before.node, outcome, call, scripts[process]!, number);
  // One that wakes because something has changed begins to look anew.
  const isStill = before.since === state.moment.world;
  const { since, looks } = isWaiting(before.node) && !isStill ? { since: "", looks: 0 } : before;
  const waits = { since: moment.world, looks: since === moment.world ? looks + 1 : 0 };
  const after = isWaiting(node) ? waits : { since, looks };
  const processes = state.processes.with(process, { node, isDead: false, ...after });
  return { ...next, moment, processes, failures: state.failures - (isFailing ? 1 : 0) };
}

function isAwake({ moment, processes }: State, at: number): boolean {
  const { node, isDead, since } = processes[at]!;
  return !isDead && node.progress.next !== undefined && (!isWaiting(node) || since !== moment.world);
}

/** A call that fails does nothing, but for a close, after which a descriptor is gone, and one that does half. */
function failed(
  moment: Moment,
  process: number,
  call: Call,
  error: string,
): { moment: Moment; outcome: Outcome } {
  if (error === "short") return moment.after(process, half(call));
  const after = call.name === "closeSync" ? moment.after(process, call).moment : moment;
  return { moment: after, outcome: { error } };
}

const half = ({ name, args }: Call): Call => ({ name, args: halved(name, args) });

/** The process after one more call. One that waits, looks, and finds what it found before is where it was. */
async function follow(
  node: Node,
  outcome: Outcome,
  call: Call,
  script: Script,
  number: number,
): Promise<Node> {
  const answer = `${call.name} ${textOf(outcome)}`;
  const known = node.children.get(answer);
  if (known) return known;
  const past = [...node.past, outcome];
  const progress = await replay(script, number, past);
  const round = isWaiting(node) ? answer : `${node.round}\n${answer}`;
  const waitedBefore = isWaiting(node) ? node : node.waitedBefore;
  const isAgain = progress.next?.name === "pause" && waitedBefore?.round === round;
  const next = isAgain ? waitedBefore! : newNode(past, progress, round, waitedBefore);
  node.children.set(answer, next);
  return next;
}

const textOf = (outcome: Outcome): string =>
  JSON.stringify(outcome, (_key, value: unknown) =>
    typeof value === "bigint"
      ? `${value}n`
      : value instanceof Uint8Array
        ? Buffer.from(value).toString("latin1")
        : value,
  );

const labelOf = ({ process, act }: Choice, { name, args }: Call): string => {
  const path = args
    .filter((arg) => typeof arg === "string")
    .map((arg) => arg.slice(arg.lastIndexOf("/") + 1));
  return `${process + 1} ${act === "step" ? "" : `(${act}) `}${name} ${path.join(" ")}`.trim();
};

/** The steps, those of one process in a row behind its number. */
function traceOf(labels: readonly string[]): string {
  const parts: string[] = [];
  let last = "";
  for (const label of labels.filter((each) => each !== "")) {
    const [number = "", ...rest] = label.split(" ");
    parts.push(number === last ? rest.join(" ") : `[${number}] ${rest.join(" ")}`);
    last = number;
  }
  return parts.join(", ");
}
