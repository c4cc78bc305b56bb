import { CommandError } from "./failure.ts";

/** Characters that are collected before they are handed to the stream in one piece. */
const PIECE_LENGTH = 64 * 1024;

/** Thrown when whoever read the output has closed it, as `| head` does: there is no reason to go on. */
export class OutputClosed extends Error {
  override readonly name = "OutputClosed";
}

/** Text on its way to a stream: collected in pieces, and waiting where the reader is slower than the command. */
export class Output {
  readonly #stream: NodeJS.WriteStream;
  #piece = "";

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    // Whoever hands a piece over is told of its failure; the stream tells everyone a second time.
    stream.on("error", () => undefined);
  }

  /** @throws OutputClosed */
  async write(text: string): Promise<void> {
    this.#piece += text;
    if (this.#piece.length >= PIECE_LENGTH) await this.flush();
  }

  async writeLine(line: string): Promise<void> {
    await this.write(`${line}\n`);
  }

  /** Writes a line as it is, whatever its bytes are. */
  async writeBytes(line: Uint8Array): Promise<void> {
    await this.flush();
    await this.#hand(line);
    await this.#hand("\n");
  }

  /** Hands over what was collected; answers when the stream takes more. */
  async flush(): Promise<void> {
    const piece = this.#piece;
    this.#piece = "";
    if (piece !== "") await this.#hand(piece);
  }

  /** Answers when the stream has taken the piece, so that a slow reader slows the command down instead of filling memory. */
  #hand(piece: string | Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#stream.write(piece, (error) => {
        if (!error) resolve();
        else if ((error as NodeJS.ErrnoException).code === "EPIPE") reject(new OutputClosed());
        else
          reject(new CommandError("output", `Nothing can be printed: ${error.message}.`, { cause: error }));
      });
    });
  }
}
