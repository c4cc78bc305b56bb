import type { Findings, Harness, HarnessOptions } from "../harness.ts";
import { oldSession, type StoreName, sessionBytes, storeNamed } from "../stores.ts";
import { alone, FOLDER, identityOf, type Machine, Moment, type Script } from "./schedule/machine.ts";
import { type Bounds, type End, searchSchedules } from "./schedule/search.ts";
import { scheduleStatements } from "./schedule/statements.ts";
import { append, codeOf, judgeWritten, lease, type Writer } from "./schedule/writer.ts";

/** Programs of some processes, and the bounds of the search for an order in which they fail, in both forms of the trial. */
type Scenario = [name: string, start: Moment, scripts: Script[], short: Bounds, long: Bounds];

const NAME = "session.jsonl";
const FILE = `${FOLDER}/${NAME}`;

/** A process that is dead from the beginning and left files. */
const GHOST = 50;

/** The process that judges the end. */
const JUDGE = 60;

/** Bytes of one write of the store that writes in pieces: fewer than the longer entries have. */
const PIECE = 200;

/** Faults after which a scenario ends. */
const ENOUGH = 3;

/**
 * Every order of the calls of two or three processes to the file system, up to a bound, with deaths and failed calls, for
 * appending, the lease and bringing an old file up to date; and every order of statements of two clients of a database.
 */
export const schedule: Harness = {
  async run(options, findings) {
    for (const scenario of scenarios(options.store)) {
      await search(scenario, options, findings);
      // A broken store is detected.
      if (options.store !== "file" && findings.faults.length > 0) return;
    }
    // The other stores are broken files.
    if (options.store === "file") await scheduleStatements(options.isShort, findings);
  },
};

async function search(scenario: Scenario, { isShort }: HarnessOptions, findings: Findings): Promise<void> {
  const [name, start, scripts, short, long] = scenario;
  const bounds = isShort ? short : long;
  const judged = new Set<string>();
  let faults = 0;
  const states = await searchSchedules(start, scripts, bounds, async (end) => {
    const said = end.processes.map(({ isDead, failure }) => `${isDead}${codeOf(failure)}`);
    const key = `${end.moment.world}#${[...end.acknowledged].sort().join()}#${said.join()}`;
    if (end.problem === undefined && judged.size === judged.add(key).size) return false;
    for await (const sentence of judge(end, start, bounds)) {
      faults += 1;
      findings.fault(`${name}: ${sentence} Steps: ${end.trace()}`);
    }
    return faults >= ENOUGH;
  });
  findings.count(`${name}: states`, states);
  findings.count(`${name}: ends`, judged.size);
}

/** Sentences for what is wrong with an end. */
async function* judge(end: End, start: Moment, { deaths, failures }: Bounds): AsyncGenerator<string> {
  const { moment, problem, acknowledged, processes } = end;
  if (problem !== undefined) return yield problem;
  const isClean = deaths === 0 || !processes.some(({ isDead }) => isDead);
  const left = moment.files.filter((file) => file !== NAME && file !== `${NAME}.v1`);
  if (isClean && left.length > 0) yield `${left.join(", ")} stayed.`;
  yield* await alone(moment, JUDGE, (work) =>
    judgeWritten({
      file: FILE,
      store: storeNamed("file", FOLDER, work),
      read: async (file) => moment.bytesOf(file.slice(FOLDER.length + 1)),
      before: start.bytesOf(NAME)!,
      acknowledged,
      failures: processes.flatMap(({ failure }) => failure ?? []),
      expected: failures > 0 ? undefined : ["busy", "changed"],
    }),
  );
}

const current = Moment.of({ [NAME]: sessionBytes([]) });
const old = Moment.of({ [NAME]: oldSession });
/** A session with a lease, and a candidate for one, of a process that is dead. */
const abandoned = Moment.of({
  [NAME]: sessionBytes([]),
  [`${NAME}.lease`]: leaseOf(GHOST),
  [`${NAME}.lease-00000000050f`]: leaseOf(GHOST),
}).without(GHOST);

function leaseOf(number: number): Uint8Array {
  const lease = { ...identityOf(number), since: "2026-01-01T00:00:00.000Z", owner: "00000000050e" };
  return Buffer.from(`${JSON.stringify(lease)}\n`);
}

const FAILING = ["EIO", "EINTR", "EMFILE", "short"];

function scenarios(name: StoreName): Scenario[] {
  const script =
    (act: (writer: Writer, machine: Machine) => Promise<void>): Script =>
    (work) =>
      act({ ...work, store: storeNamed(name, FOLDER, { ...work, piece: PIECE, later: setImmediate }) }, work);
  const appending = (...entries: [string, number][]) =>
    script(async (writer) => {
      for (const [id, size] of entries) await append(writer, FILE, id, size);
    });
  // A step that cannot fail, so that there is a moment in which it is held.
  const holding = script((writer, { processes }) =>
    lease(writer, FILE, async () => processes.mayBeRunning(processes.own())),
  );
  const one = appending(["a", 10]);
  const two = appending(["b", 10]);
  const three = appending(["c", 10]);
  const dying = { deaths: 1, failures: 0, errors: [] };
  const failing = { deaths: 0, failures: 1, errors: FAILING };
  const bound = (bounds: Bounds, switches: number): Bounds => ({ ...bounds, switches });
  const calm = bound({ ...dying, deaths: 0 }, 1);
  const longOnes = [appending(["a", 10], ["b", 300]), appending(["c", 300])];
  const failingOnes = [appending(["a", 300]), appending(["c", 10])];
  return [
    ["append by two", current, longOnes, bound(dying, 2), dying],
    ["append by two, a call fails", current, failingOnes, bound(failing, 1), failing],
    ["lease by two", abandoned, [holding, holding], bound(dying, 2), dying],
    ["lease by two, a call fails", abandoned, [holding, holding], bound(failing, 1), bound(failing, 3)],
    ["upgrade by two", old, [one, two], bound(dying, 1), bound(dying, 4)],
    [
      "upgrade by two, a call fails",
      old,
      [one, two],
      bound({ ...failing, errors: ["EIO"] }, 1),
      bound(failing, 2),
    ],
    ["upgrade by three", old, [one, two, three], calm, bound(dying, 1)],
    ["append by three", current, [one, two, three], bound(dying, 1), bound(dying, 2)],
    ["lease by three", abandoned, [holding, holding, holding], calm, bound(dying, 2)],
  ];
}
