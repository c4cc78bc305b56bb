import { readFileSync } from "node:fs";
import type { MessagesServer } from "@espalier/summarizer/testing";
import { Child } from "./child-process.ts";
import type { Told } from "./children/conversing.ts";
import { judgeConversation, type Remains, wasWaiting } from "./conversation-judge.ts";
import { openGarden } from "./garden.ts";
import { converse, openGardener } from "./gardener.ts";
import type { Findings, HarnessOptions } from "./harness.ts";

/** A conversation in a file, with a model of its own: processes have it until they are killed, and it is judged. */
export class Conversed {
  readonly file: string;
  readonly garden: MessagesServer;
  /** What the processes left that were killed in it. */
  readonly kills: Remains[] = [];
  readonly #options: HarnessOptions;

  constructor(options: HarnessOptions, file: string, garden: MessagesServer) {
    this.#options = options;
    this.file = file;
    this.garden = garden;
  }

  /** Has a conversation in this file for as long as `work` takes. */
  static async in<Result>(
    options: HarnessOptions,
    file: string,
    work: (conversed: Conversed) => Promise<Result>,
  ): Promise<Result> {
    const garden = await openGarden();
    try {
      return await work(new Conversed(options, file, garden));
    } finally {
      await garden.close();
    }
  }

  /** Lets a process have the conversation until a day, or until it is killed at its moment number `moment` (0: never). */
  async process(until: number, moment: number): Promise<{ told: Told[]; wasKilled: boolean }> {
    const { store, folder, program } = this.#options;
    const args = ["conversing", store, folder, this.file, this.garden.url, `${until}`, `${moment}`];
    const child = new Child(program, args, { isMute: store !== "file" });
    await child.over;
    const told = child.lines.map((line) => JSON.parse(line) as Told);
    const wasKilled = child.process.signalCode === "SIGKILL";
    if (wasKilled) this.kills.push({ bytes: readFileSync(this.file), told });
    return { told, wasKilled };
  }

  /** Goes on in this process until a day, and says what is wrong then; `from` is the first day that the model was asked about. */
  async goOn(findings: Findings, from: number, until: number, when: string): Promise<void> {
    const { store, folder: home } = this.#options;
    const gardener = await openGardener({ store, home, file: this.file, url: this.garden.url });
    const { agent, session } = gardener;
    const { kills, garden } = this;
    const last = kills.at(-1);
    // Unless another process has gone on since.
    if (last && wasWaiting(last) && last.bytes.equals(readFileSync(this.file))) {
      const { state } = agent.state;
      findings.expect(state === "outcome-unknown", () => `${when}: it says of itself: ${state}.`);
    }
    try {
      await converse(gardener, until);
      judgeConversation(findings, { gardener, garden, from, until, kills }, when);
    } catch (error) {
      findings.fault(`${when}: it does not go on: ${(error as Error).message}`);
    } finally {
      await session.close();
    }
  }
}
