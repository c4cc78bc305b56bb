import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { type Acknowledged, digestOfContext } from "./children/acting.ts";
import { Child } from "./children.ts";
import { Findings, type Harness, SeededRandom } from "./harness.ts";
import { judgeAfterCut } from "./power.ts";
import { headerOf } from "./stores.ts";

/** Outages of one session before the next begins. */
const CUTS_A_SESSION = 5;

/** What is acknowledged at `fsync` unless somebody says otherwise; the other acts at `flush`. */
const DURABLE: ReadonlySet<string> = new Set(["say", "answer", "compact", "fork", "repair"]);

/**
 * The power of a real file system goes at a random moment of everything one does with a session, and its journal is
 * replayed: what was acknowledged at `fsync` is there, and says the same.
 */
export const outage: Harness = async (options) => {
  const findings = new Findings();
  let disk: LoopDisk;
  try {
    disk = new LoopDisk(options.folder);
  } catch (error) {
    findings.skipped.push(
      `No file system on a loop device (${(error as Error).message.split("\n")[0]}); \`power\` simulates one.`,
    );
    return findings;
  }
  try {
    await cutAgainAndAgain(disk, options, findings);
  } finally {
    disk.remove();
  }
  return findings;
};

async function cutAgainAndAgain(
  disk: LoopDisk,
  { count, isShort, seed, program, store: storeName }: Parameters<Harness>[0],
  findings: Findings,
): Promise<void> {
  const random = new SeededRandom(seed * 7919);
  const store = fileStore({ home: disk.folder });
  const total = count ?? (isShort ? 6 : 200);
  for (let round = 0, file = "", acked: Acknowledged[] = []; round < total; round += 1) {
    if (round % CUTS_A_SESSION === 0) {
      if (file !== "") rmSync(file);
      file = join(disk.folder, `session${round}.jsonl`);
      acked = [];
      await (await store.create(headerOf(`s${round}`), [], file)).close();
    }
    const parameters = ["acting", storeName, disk.folder, file, `${seed * 1_000 + round}`];
    // What fails once the power is gone is no news.
    const child = new Child(program, parameters, { isMute: true });
    const isOpen = (await child.line(0)) !== undefined;
    findings.expect(isOpen, () => `Cut ${round}: the session could not be opened again.`);
    await setTimeout(random.next() * 300);
    // What is said while the power goes proves nothing: in that moment this kernel's fdatasync may answer that all is
    // well when it is not (a bare loop of write and fdatasync, without any of our code, lost 18 of 231 such lines).
    const seen = child.lines.length;
    disk.cut();
    child.process.kill("SIGKILL");
    await child.over;
    disk.restart();
    findings.count("cuts");
    const said = child.lines.slice(1, seen).map((line) => JSON.parse(line) as Acknowledged);
    acked.push(...said.filter(({ act }) => DURABLE.has(act)));
    findings.count("acked at fsync", said.filter(({ act }) => DURABLE.has(act)).length);
    findings.count("acked at flush", said.filter(({ act }) => !DURABLE.has(act)).length);
    findings.count("said while the power went", child.lines.length - seen);
    const when = `Cut ${round}`;
    await judgeAfterCut(findings, file, when, (session) => judgeAcknowledged(findings, session, acked, when));
  }
}

/** What was acknowledged at `fsync` is there, and the context of the last of it is what it was. */
async function judgeAcknowledged(
  findings: Findings,
  session: SessionTree,
  acked: readonly Acknowledged[],
  when: string,
): Promise<void> {
  for (const { act, ids, file: made } of acked) {
    for (const id of ids)
      findings.expect(
        session.tree.has(id),
        () => `${when}: an entry of "${act}" acknowledged at fsync is lost.`,
      );
    findings.expect(made === undefined || existsSync(made), () => `${when}: the file of a ${act} is gone.`);
    if (made !== undefined && existsSync(made))
      await (await SessionTree.open(await fileStore({ home: made }).open({ file: made }, "read"))).close();
  }
  const last = acked.findLast(({ ids }) => ids.length > 0);
  if (last && last.leafId !== null) {
    const now = session.tree.has(last.leafId) && digestOfContext(session.contextAt(last.leafId));
    findings.expect(now === last.digest, () => `${when}: the context of the last durable leaf has changed.`);
  }
}

/** Bytes of the disk: room for one session after the other. */
const SIZE = 128 * 1024 * 1024;

/**
 * Takes the power from a mounted file system: what is not on disk, the journal's memory included, is gone, and every
 * call fails from then on. Node has no ioctl; every Linux has perl.
 */
const CUT = `open(my $folder, "<", $ARGV[0]) or die "open: $!";
my $without_flushing_the_log = pack("L", 2);
ioctl($folder, 0x8004587d, $without_flushing_the_log) or die "FS_IOC_SHUTDOWN: $!";`;

/** A file system of its own on a loop device (ext4), whose power can be cut. */
class LoopDisk {
  /** Where it is mounted. */
  readonly folder: string;
  readonly #image: string;

  /** Throws where there are no loop devices, no rights to mount, no mkfs.ext4 or no perl. */
  constructor(folder: string) {
    this.folder = join(folder, "disk");
    this.#image = join(folder, "disk.img");
    mkdirSync(this.folder);
    run("truncate", ["-s", `${SIZE}`, this.#image]);
    run("mkfs.ext4", ["-q", "-F", this.#image]);
    run("perl", ["-e", "1"]);
    this.#mount();
  }

  /** From here on nothing reaches the disk any more. */
  cut(): void {
    run("perl", ["-e", CUT, this.folder]);
  }

  /** The machine starts again: the journal is replayed, and what the disk has is there. */
  restart(): void {
    run("umount", [this.folder]);
    this.#mount();
  }

  remove(): void {
    run("umount", ["-l", this.folder]);
    rmSync(this.#image, { force: true });
  }

  #mount(): void {
    run("mount", ["-o", "loop", this.#image, this.folder]);
  }
}

function run(command: string, parameters: readonly string[]): void {
  execFileSync(command, parameters, { stdio: ["ignore", "ignore", "pipe"] });
}
