import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/** A process of the trial's own program, with the lines it says. */
export class Child {
  readonly process: ChildProcess;
  readonly lines: string[] = [];
  /** Resolves when it is over, and everything it said was heard. */
  readonly over: Promise<unknown>;
  #rest = "";
  #heard: (() => void)[] = [];

  constructor(program: string, args: readonly string[], options: { shell?: string; isMute?: boolean } = {}) {
    const own = [program, "child", ...args];
    // What a broken store makes its process say is of no interest.
    const stdio: ["pipe", "pipe", "ignore" | "inherit"] = [
      "pipe",
      "pipe",
      options.isMute ? "ignore" : "inherit",
    ];
    this.process = options.shell
      ? spawn("sh", ["-c", `${options.shell}; exec "$0" "$@"`, process.execPath, ...own], { stdio })
      : spawn(process.execPath, own, { stdio });
    this.process.stdout!.setEncoding("utf8").on("data", (text: string) => this.#hear(text));
    // A child that was killed does not read what is still said to it.
    this.process.stdin!.on("error", () => undefined);
    this.over = once(this.process, "close");
  }

  say(line: string): void {
    this.process.stdin!.write(`${line}\n`);
  }

  /** The line at a position, as soon as it was said; undefined when the child is over before. */
  async line(at: number): Promise<string | undefined> {
    let isOver = false;
    const over = this.over.then(() => {
      isOver = true;
    });
    while (this.lines.length <= at && !isOver)
      await Promise.race([over, new Promise<void>((resolve) => this.#heard.push(resolve))]);
    return this.lines[at];
  }

  #hear(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    this.lines.push(...lines);
    for (const heard of this.#heard.splice(0)) heard();
  }
}
