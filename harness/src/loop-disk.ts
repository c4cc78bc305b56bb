import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";

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
export class LoopDisk {
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
