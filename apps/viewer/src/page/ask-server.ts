/** What a server, or the page itself, says went wrong: a sentence for people. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Asks the server that the page came from. @throws AnswerError with its sentence, or `offline` */
export async function ask<Answer>(
  path: string,
  parameters: Readonly<Record<string, string | number>> = {},
): Promise<Answer> {
  const query = new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, String(value)]));
  const response = await send(query.size === 0 ? path : `${path}?${query}`, {});
  return (await response.json()) as Answer;
}

/**
 * An order that takes its time: tells how far it is, answers with its result.
 * @throws AnswerError with the server's sentence, `aborted` when `signal` stopped it, or `offline`
 */
export async function order<Result>(
  path: string,
  body: object,
  onProgress: (outputTokens: number) => void,
  signal: AbortSignal,
): Promise<Result> {
  const response = await send(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  for await (const line of linesOf(response, signal)) {
    const said = JSON.parse(line) as {
      progress?: { outputTokens: number };
      result?: Result;
      error?: { code: string; message: string };
    };
    if (said.progress) onProgress(said.progress.outputTokens);
    if (said.error) throw new AnswerError(said.error.code, said.error.message);
    if ("result" in said) return said.result as Result;
  }
  throw new AnswerError("offline", CUT_OFF);
}

async function* linesOf(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const read = () =>
    reader.read().catch((cause: unknown) => {
      throw signal.aborted ? stopped(cause) : new AnswerError("offline", CUT_OFF, { cause });
    });
  let rest = "";
  for (let part = await read(); !part.done; part = await read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

async function send(address: string, options: RequestInit): Promise<Response> {
  const response = await fetch(address, options).catch((cause: unknown) => {
    throw options.signal?.aborted ? stopped(cause) : new AnswerError("offline", NO_ANSWER, { cause });
  });
  if (response.ok) return response;
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  throw new AnswerError(error.code, error.message);
}

const NO_ANSWER = "The server does not answer; is `espalier serve` still running?";

const CUT_OFF = "The server was gone before it said that it is done; the tree shows whether it was.";

/** Who stops may be late by a moment: what was done by then is in the session. */
const stopped = (cause: unknown): AnswerError =>
  new AnswerError("aborted", "Stopped. What was not done by then is not done.", { cause });
