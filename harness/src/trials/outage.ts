import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileStore } from "@espalier/session-tree/node";
import { testHeader } from "@espalier/session-tree/testing";
import { Child, type Findings, type Harness, type HarnessOptions, SeededRandom } from "../harness.ts";
import { type Acknowledged, judgeAcknowledged, judgeAfterOutage, judgeFiles } from "../judge.ts";

/** Outages of one session before the next begins. */
const CUTS_A_SESSION = 5;

/** Acts that are acknowledged at `fsync` by default; the others are at `flush`. */
const DURABLE: ReadonlySet<string> = new Set(["say", "answer", "compact", "fork", "repair"]);

/**
 * The power of a real file system goes at a random moment of the acts of `kill`, and its journal is replayed: what was
 * acknowledged at `fsync` is there, and the context is the same.
 */
export const outage: Harness = {
  async run(options, findings) {
    let disk: LoopDisk;
    try {
      disk = new LoopDisk(options.folder);
    } catch (error) {
      findings.skipped.push(
        `No file system on a loop device (${(error as Error).message.split("\n")[0]}); \`power\` simulates one.`,
      );
      return;
    }
    try {
      await cutAgainAndAgain(disk, options, findings);
    } finally {
      disk.remove();
    }
  },
};

async function cutAgainAndAgain(disk: LoopDisk, options: HarnessOptions, findings: Findings): Promise<void> {
  const { count, isShort, seed } = options;
  const random = new SeededRandom(seed * 7919);
  const store = fileStore({ home: disk.folder });
  const total = count ?? (isShort ? 6 : 200);
  for (let round = 0, file = "", acked: Acknowledged[] = []; round < total; round += 1) {
    if (round % CUTS_A_SESSION === 0) {
      if (file !== "") rmSync(file);
      file = join(disk.folder, `session${round}.jsonl`);
      acked = [];
      await (await store.create(testHeader(`s${round}`), [], file)).close();
    }
    const here = findings.at(`Cut ${round}`);
    // Its calls fail once the power is gone.
    const given = ["kill", options.store, disk.folder, file, seed * 1_000 + round];
    const child = new Child(options, given, { isMute: true });
    const isOpen = (await child.line(0)) !== undefined;
    here.expect(isOpen, "the session could not be opened again.");
    await setTimeout(random.next() * 300);
    // Acknowledgements while the power goes prove nothing: in that moment this kernel's fdatasync may report success
    // when the data is not safe (a bare loop of write and fdatasync, without our code, lost 18 of 231 such lines).
    const read = child.lines.length;
    disk.cut();
    await child.kill();
    disk.restart();
    const before = child.lines.slice(1, read).map((line) => JSON.parse(line) as Acknowledged);
    const durable = before.filter(({ act }) => DURABLE.has(act));
    acked.push(...durable);
    findings.count("cuts");
    findings.count("acked at fsync", durable.length);
    findings.count("acked at flush", before.length - durable.length);
    findings.count("said while the power went", child.lines.length - read);
    // A fork or a repair leaves the session as it was, whose newest acts may be at `flush`.
    const appended = acked.filter(({ ids }) => ids.length > 0);
    await judgeAfterOutage(here, file, (session) => judgeAcknowledged(here, session, appended));
    await judgeFiles(here, acked);
  }
}

/** Bytes of the disk: room for one session after the other. */
const SIZE = 128 * 1024 * 1024;

/**
 * Takes the power from a mounted file system: everything not on disk is gone, the journal's memory included, and every
 * call fails from then on. Node has no ioctl; every Linux has perl.
 */
const CUT = `open(my $folder, "<", $ARGV[0]) or die "open: $!";
my $without_flushing_the_log = pack("L", 2);
ioctl($folder, 0x8004587d, $without_flushing_the_log) or die "FS_IOC_SHUTDOWN: $!";`;

/** A file system of its own on a loop device (ext4), whose power can be cut. */
class LoopDisk {
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

  /** Nothing reaches the disk from here on. */
  cut(): void {
    run("perl", ["-e", CUT, this.folder]);
  }

  /** Starts the machine again: the journal is replayed. */
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
