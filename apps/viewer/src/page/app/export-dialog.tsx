// Separate from session-view.tsx: the dialog is a panel of its own.
import { exportSession } from "@espalier/interop";
import { redactText } from "@espalier/session-tree";
import { useState } from "preact/hooks";
import { type SessionReader, sessionAttributes, type TreeReader } from "../../model/tree-reader.ts";
import { embeddedLeftOut } from "../source/page-source.ts";
import { Dialog } from "./dialogs.tsx";
import { useViewer } from "./viewer.ts";

const FORMATS = [
  ["markdown", "Markdown", "a document to read and to edit"],
  ["html", "HTML", "this page with the session inside; opens without a server"],
  ["json", "JSON", "one document for programs"],
  ["jsonl", "Session file", "JSON Lines, which Espalier opens again"],
] as const;

/** Dialog that saves a session or one path of it to a file, or prints it. */
export function ExportDialog({ print, onClose }: { print: () => void; onClose: () => void }) {
  const { model, served } = useViewer();
  const [format, setFormat] = useState<ExportChoice["format"]>("markdown");
  const [isPath, setPath] = useState(false);
  const [redact, setRedact] = useState(false);
  const [trouble, setTrouble] = useState("");
  const query = async (): Promise<ExportChoice> => {
    const [end] = isPath ? await model.reader.gists(model.tip, model.tip + 1) : [];
    return { format, ...(end ? { at: end.id } : {}), ...(redact ? { redact: "yes" } : {}) };
  };
  const save = async (event: Event) => {
    event.preventDefault();
    try {
      const asked = await query();
      const link = document.createElement("a");
      const { reader } = model;
      link.href = isLocal(reader)
        ? URL.createObjectURL(await localExport(reader, asked))
        : `${served}/export?${new URLSearchParams({ ...asked })}`;
      link.download = fileNameOf(model.facts.id, format);
      link.click();
      onClose();
    } catch (error) {
      setTrouble(error instanceof Error ? error.message : String(error));
    }
  };
  const printAll = () => {
    onClose();
    print();
  };
  return (
    <Dialog title="Export" onClose={onClose}>
      <form onSubmit={save}>
        <fieldset>
          <legend>Format</legend>
          {FORMATS.map(([value, name, use]) => (
            <label key={value} class="choice">
              <input
                type="radio"
                name="format"
                checked={format === value}
                onChange={() => setFormat(value)}
              />
              <span>
                {name} <span class="quiet">{use}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <fieldset>
          <legend>Content</legend>
          <label class="choice">
            <input type="radio" name="content" checked={!isPath} onChange={() => setPath(false)} />
            <span>the whole session, with all branches</span>
          </label>
          <label class="choice">
            <input type="radio" name="content" checked={isPath} onChange={() => setPath(true)} />
            <span>the path that is shown</span>
          </label>
          <label class="choice">
            <input
              type="checkbox"
              checked={redact}
              onChange={(event) => setRedact(event.currentTarget.checked)}
            />
            <span>leave out well-known keys and tokens</span>
          </label>
        </fieldset>
        {trouble !== "" && <p class="failure">{trouble}</p>}
        <div class="buttons">
          <button type="button" onClick={printAll}>
            Print
          </button>
          <span class="grow" />
          <button type="button" onClick={onClose}>
            Close
          </button>
          <button type="submit" class="primary">
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface ExportChoice {
  format: "markdown" | "html" | "json" | "jsonl";
  /** Last entry of the path; absent for the whole session. */
  at?: string;
  /** Present if well-known keys are left out. */
  redact?: "yes";
}

const fileNameOf = (id: string, format: ExportChoice["format"]): string =>
  `${id.replace(/[^\w.-]/g, "_") || "session"}.${format === "markdown" ? "md" : format}`;

const isLocal = (reader: SessionReader | TreeReader): reader is TreeReader => "tree" in reader;

/** Makes the file of a session from its bytes. A server makes the same text for its sessions. */
async function localExport({ tree }: TreeReader, { format, at, redact }: ExportChoice): Promise<Blob> {
  const pieces = exportSession(tree, {
    format: format === "html" ? "jsonl" : format,
    at,
    all: at === undefined,
    ...(redact === undefined ? {} : { redact: redactText }),
  });
  const texts: string[] = [];
  let next = pieces.next();
  for (; !next.done; next = pieces.next()) texts.push(next.value);
  if (format !== "html") return new Blob(texts);
  const id = tree.header?.id ?? "";
  return pageWith(new Blob(texts), id, tree.length - next.value + embeddedLeftOut(id));
}

/** Bytes that are encoded at once. A multiple of three, so that the parts of the base64 text can be joined. */
const PART = 3 << 12;

const PLACE = "place of the session";

/**
 * Returns this page with another session inside, and without a server.
 *
 * @param leftOut number of entries of the session that are not in the lines
 */
async function pageWith(lines: Blob, id: string, leftOut: number): Promise<Blob> {
  const stream = lines.stream().pipeThrough(new CompressionStream("gzip"));
  const packed = new Uint8Array(await new Response(stream).arrayBuffer());
  const page = document.documentElement.cloneNode(true) as HTMLElement;
  delete page.dataset["served"];
  // A page of a server has the policy of a file under this name, without effect.
  const policy = page.querySelector("meta[name=policy]");
  policy?.setAttribute("http-equiv", "Content-Security-Policy");
  policy?.removeAttribute("name");
  page.querySelector("#app")!.replaceChildren();
  page.querySelector("#session")?.remove();
  // The script must stay text in this page, and become an element only in the new page.
  const place = document.createComment(PLACE);
  page.querySelector("#app")!.after(place);
  const [before = "", after = ""] = page.outerHTML.split(`<!--${PLACE}-->`);
  const parts: string[] = [];
  for (let at = 0; at < packed.length; at += PART)
    parts.push(btoa(String.fromCharCode(...packed.subarray(at, at + PART))));
  const script = `<script ${sessionAttributes(id, leftOut)}>`;
  return new Blob(["<!doctype html>\n", before, script, ...parts, "</script>", after]);
}
