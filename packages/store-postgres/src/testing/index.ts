export { type PrivateServer, serverPrograms, startPrivateServer } from "./private-server.ts";
