// The page: a chat with `useChat` that edits, answers again, goes from one version to another, and survives a reload.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, type UIMessage } from "ai";
import { type FormEvent, useState } from "react";
import { createRoot } from "react-dom/client";
import type { Chat, Versions } from "./chat.ts";

const id = new URLSearchParams(location.search).get("chat") ?? "garden";
const address = `/api/chat/${id}`;

async function load(path = "", sent?: object): Promise<Chat> {
  const response = await fetch(address + path, sent ? { method: "POST", body: JSON.stringify(sent) } : {});
  return (await response.json()) as Chat;
}

// The newest message, and the one before, which says where it belongs.
const transport = new DefaultChatTransport({
  prepareSendMessagesRequest: ({ messages }) => ({ api: address, body: { messages: messages.slice(-2) } }),
});

function ChatPage({ chat }: { chat: Chat }) {
  const [versions, setVersions] = useState(chat.versions);
  const [editedId, edit] = useState<string>();
  const { messages, setMessages, sendMessage, regenerate, status, error } = useChat({
    id,
    messages: chat.messages,
    transport,
    resume: true, // goes on with the answer that was being given when the page was left
    onFinish: async () => setVersions((await load()).versions),
  });
  const isBusy = status === "submitted" || status === "streaming";

  async function show(version: string) {
    const other = await load("/version", { version });
    setMessages(other.messages);
    setVersions(other.versions);
  }
  function send(text: string, messageId?: string) {
    edit(undefined);
    void sendMessage({ text, ...(messageId ? { messageId } : {}) });
  }

  return (
    <main>
      {messages.map((message) => (
        <article key={message.id} className={message.role}>
          {editedId === message.id ? (
            <Say text={textOf(message)} label="Send again" say={(text) => send(text, message.id)} />
          ) : (
            <Parts parts={message.parts} />
          )}
          {versions[message.id] && <Picker {...versions[message.id]!} show={show} />}
          {message.role === "user" && !isBusy && <Button act={() => edit(message.id)}>Edit</Button>}
        </article>
      ))}
      {error && <p role="alert">The answer broke off.</p>}
      {messages.length > 0 && !isBusy && <Button act={() => regenerate()}>Answer again</Button>}
      <Say text="" label="Send" say={send} isDisabled={isBusy} />
    </main>
  );
}

function Parts({ parts }: Pick<UIMessage, "parts">) {
  return parts.map((part, at) => {
    const key = `${part.type} ${at}`; // parts are only added, at the end
    if (part.type === "text") return <p key={key}>{part.text}</p>;
    if (part.type === "tool-look" && "state" in part) return <code key={key}>look: {part.state}</code>;
    return null;
  });
}

function Picker({ index, ids, show }: Versions & { show: (id: string) => void }) {
  return (
    <span className="versions">
      <Button act={() => show(ids[index - 1]!)} isDisabled={index === 0}>
        ‹
      </Button>
      {index + 1} of {ids.length}
      <Button act={() => show(ids[index + 1]!)} isDisabled={index === ids.length - 1}>
        ›
      </Button>
    </span>
  );
}

function Say({ text, label, say, isDisabled = false }: SayProps) {
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const said = new FormData(event.currentTarget).get("said");
    event.currentTarget.reset();
    if (typeof said === "string" && said.trim()) say(said);
  }
  return (
    <form onSubmit={submit}>
      <input name="said" defaultValue={text} placeholder={label} autoComplete="off" />
      <button type="submit" disabled={isDisabled}>
        {label}
      </button>
    </form>
  );
}
interface SayProps {
  text: string;
  label: string;
  say: (text: string) => void;
  isDisabled?: boolean;
}

function Button({ act, isDisabled = false, children }: ButtonProps) {
  return (
    <button type="button" onClick={act} disabled={isDisabled}>
      {children}
    </button>
  );
}
interface ButtonProps {
  act: () => unknown;
  isDisabled?: boolean;
  children: string;
}

const textOf = ({ parts }: UIMessage) =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");

createRoot(document.getElementById("chat")!).render(<ChatPage chat={await load()} />);
