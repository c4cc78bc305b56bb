import { TemporaryFile } from "@espalier/interop/node";
import { CommandError } from "./failure.ts";

/** Characters that are collected before they are handed to the stream in one piece. */
const PIECE_LENGTH = 64 * 1024;

/** Bytes of a whole that are kept in memory; the rest of a longer one waits in a temporary file. */
const KEPT_IN_MEMORY = 16 * 1024 * 1024;

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

  /**
   * Writes all of a text or nothing: the first piece is handed over when the last one is there, since what makes the pieces
   * may fail at any of them.
   * @throws what making a piece throws; InteropError `no-room` where the rest of a long text cannot be kept
   */
  async writeWhole(pieces: Iterable<string>): Promise<void> {
    const kept = new WaitingText();
    try {
      for (const piece of pieces) kept.add(piece);
      await this.flush();
      for (const bytes of kept.bytes()) await this.#hand(bytes);
    } finally {
      kept.close();
    }
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

/** A text that waits for its end: the beginning in memory, the rest in a file without a name. */
class WaitingText {
  readonly #beginning: Uint8Array[] = [];
  #beginningLength = 0;
  #rest: TemporaryFile | undefined;
  #restLength = 0;
  #piece = "";

  add(text: string): void {
    this.#piece += text;
    if (this.#piece.length >= PIECE_LENGTH) this.#keep();
  }

  /** All of it, in order. */
  *bytes(): Generator<Uint8Array> {
    this.#keep();
    yield* this.#beginning;
    for (let at = 0; at < this.#restLength; ) {
      const bytes = new Uint8Array(Math.min(PIECE_LENGTH, this.#restLength - at));
      this.#rest!.readAt(at, bytes);
      at += bytes.length;
      yield bytes;
    }
  }

  close(): void {
    this.#rest?.close();
  }

  #keep(): void {
    const bytes = Buffer.from(this.#piece);
    this.#piece = "";
    if (this.#beginningLength < KEPT_IN_MEMORY) {
      this.#beginning.push(bytes);
      this.#beginningLength += bytes.length;
      return;
    }
    this.#rest ??= new TemporaryFile();
    this.#rest.writeAt(this.#restLength, bytes);
    this.#restLength += bytes.length;
  }
}
