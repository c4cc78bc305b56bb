// A terminal that tests look at and type into: the real command in tmux.
import { execFileSync, spawnSync } from "node:child_process";
import { setTimeout } from "node:timers/promises";
import { afterAll } from "vitest";
import { bundled, temporaryFolder } from "./espalier.ts";

/** Where tmux is missing there is no terminal to look at. */
export const hasTmux = spawnSync("tmux", ["-V"]).status === 0;
if (!hasTmux) console.warn("tmux is not installed: what only a terminal shows is not tested.");

/** Milliseconds that a busy machine may take. */
const PATIENCE = 60_000;

export interface TmuxOptions {
  columns?: number;
  rows?: number;
  env?: Record<string, string>;
  cwd?: string;
}

const screens: Tmux[] = [];
let count = 0;
afterAll(() => {
  for (const screen of screens) screen.end();
});

export class Tmux {
  readonly #socket = `espalier-terminal-${process.pid}-${count++}`;
  /** What the shell says when the command is over. */
  static readonly LEFT = "the command left with";

  /** Runs the command with these arguments in a shell; when it is over, the shell says so and goes on. */
  static async run(parameters: readonly string[], options: TmuxOptions = {}): Promise<Tmux> {
    const { columns = 80, rows = 24, env = {}, cwd = temporaryFolder() } = options;
    const screen = new Tmux();
    screens.push(screen);
    const { ANTHROPIC_API_KEY: _key, CI: _ci, ...rest } = process.env;
    execFileSync(
      "tmux",
      [
        "-L",
        screen.#socket,
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-x",
        String(columns),
        "-y",
        String(rows),
        "bash --norc --noprofile -i",
      ],
      { env: { ...rest, PS1: "$ ", NO_COLOR: "1", ...env }, cwd },
    );
    const quoted = [process.execPath, await bundled(), ...parameters].map((one) => `'${one}'`).join(" ");
    screen.type(`clear; ${quoted}; echo ${Tmux.LEFT} $?`);
    return screen;
  }

  get screen(): string {
    return this.#tmux("capture-pane", "-p");
  }

  /** The screen, and what was scrolled off it. Broken lines are whole. */
  get history(): string {
    return this.#tmux("capture-pane", "-p", "-J", "-S", "-300");
  }

  /** The screen with colours, as escape sequences. */
  get coloured(): string {
    return this.#tmux("capture-pane", "-p", "-e");
  }

  /** Whether a program has taken the whole screen. */
  get isTaken(): boolean {
    return this.#tmux("display-message", "-p", "#{alternate_on}").trim() === "1";
  }

  /** What a program asked of the terminal. */
  get modes(): { isCursorShown: boolean; hearsMouse: boolean } {
    const [cursor, mouse] = this.#tmux("display-message", "-p", "#{cursor_flag} #{mouse_any_flag}")
      .trim()
      .split(" ");
    return { isCursorShown: cursor === "1", hearsMouse: mouse === "1" };
  }

  /** Waits until the screen shows a text. */
  async shows(text: string | RegExp): Promise<string> {
    return await this.until(
      (screen) => (typeof text === "string" ? screen.includes(text) : text.test(screen)),
      `${text}`,
    );
  }

  async until(isSo: (screen: string) => boolean, what: string): Promise<string> {
    for (const end = Date.now() + PATIENCE; ; ) {
      const { screen } = this;
      if (isSo(screen)) return screen;
      if (Date.now() > end) throw new Error(`The screen never showed ${what}:\n${screen}`);
      await setTimeout(60);
    }
  }

  /** Presses keys, as tmux names them. */
  keys(...keys: readonly string[]): void {
    for (const key of keys) this.#tmux("send-keys", key);
  }

  /**
   * Presses Escape, and waits until a text is gone. A key right behind it would be read with it on a busy machine, as
   * Alt and that key.
   */
  async escape(gone: string): Promise<void> {
    this.keys("Escape");
    await this.until((screen) => !screen.includes(gone), `the screen without ${gone}`);
  }

  /** Types a text, letter by letter. */
  write(text: string): void {
    this.#tmux("send-keys", "-l", text);
  }

  type(text: string): void {
    this.write(text);
    this.keys("Enter");
  }

  /** Pastes a text, as a terminal does that says so. */
  paste(text: string): void {
    this.#tmux("set-buffer", text);
    this.#tmux("paste-buffer", "-p");
  }

  resize(columns: number, rows: number): void {
    this.#tmux("resize-window", "-x", String(columns), "-y", String(rows));
  }

  end(): void {
    spawnSync("tmux", ["-L", this.#socket, "kill-server"]);
  }

  #tmux(...parameters: string[]): string {
    return execFileSync("tmux", ["-L", this.#socket, ...parameters], { encoding: "utf8" });
  }
}
