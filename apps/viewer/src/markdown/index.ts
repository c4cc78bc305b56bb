export { markdown, readMarkdown } from "./read-markdown.ts";
