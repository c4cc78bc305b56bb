import { setImmediate } from "node:timers/promises";
import type { Terminal } from "../terminal.ts";
import { view } from "../view/view.ts";
import { type PaintOptions, paintFrame } from "./paint.ts";
import type { Painted } from "./screen.tsx";
import type { Tty } from "./tty.ts";

/** The screen of a terminal, kept up to date. The first frames are painted while the library that draws is loaded. */
export class Drawing {
  readonly #tty: Tty;
  readonly #terminal: Terminal;
  readonly #options: PaintOptions;
  #drawScreen: ((painted: Painted) => () => void) | undefined;
  #endDrawing: (() => void) | undefined;
  #painted: { state: unknown; text: string } | undefined;

  constructor(tty: Tty, terminal: Terminal, options: PaintOptions) {
    this.#tty = tty;
    this.#terminal = terminal;
    this.#options = options;
  }

  async begin(): Promise<void> {
    this.#tty.enter();
    // A session that is opened can be shown by then, and nothing else has to be shown before.
    await setImmediate();
    const forget = this.#terminal.subscribe(() => this.#tty.paint(this.#paint()));
    this.#tty.paint(this.#paint());
    const { drawScreen } = await loadScreen();
    forget();
    this.#drawScreen = (painted) => drawScreen(painted, process.stdout);
    this.#draw();
  }

  /** Gives the terminal back, until `resume`. */
  suspend(): void {
    this.#endDrawing?.();
    this.#endDrawing = undefined;
    this.#tty.leave();
  }

  resume(): void {
    this.#tty.enter();
    this.#draw();
  }

  /** Draws all of the screen anew. */
  clear(): void {
    this.#endDrawing?.();
    this.#endDrawing = undefined;
    this.#tty.clear();
    this.#draw();
  }

  end(): void {
    this.suspend();
  }

  #draw(): void {
    if (!this.#drawScreen) {
      this.#tty.paint(this.#paint());
      return;
    }
    // It may have been given back while the library was loaded.
    if (!this.#tty.isOurs) return;
    this.#tty.paint("");
    this.#endDrawing ??= this.#drawScreen({
      current: () => this.#paint(),
      subscribe: (changed) => this.#terminal.subscribe(changed),
    });
  }

  #paint(): string {
    const { state } = this.#terminal;
    if (this.#painted?.state !== state) {
      const text = paintFrame(view(state), state.size.columns, this.#options);
      this.#painted = { state, text };
    }
    return this.#painted.text;
  }
}

/** What asks Ink whether a person looks at it. */
const CI = "CI";

/**
 * Ink and React, loaded when a screen is drawn and for nothing else. Ink draws nothing in a CI unless it is told that
 * this is none, and it asks while it is loaded; here stdout is a terminal, and somebody looks at it.
 */
export async function loadScreen(): Promise<typeof import("./screen.tsx")> {
  const before = process.env[CI];
  process.env[CI] = "false";
  try {
    return await import("./screen.tsx");
  } finally {
    if (before === undefined) delete process.env[CI];
    else process.env[CI] = before;
  }
}
