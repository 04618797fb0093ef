// Starts the server on this machine's own address only: by itself it would listen on all of them.
import net from "node:net";

const [port, address] = process.argv.slice(2);
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (asked, ...rest) {
  const told = rest.find((one) => typeof one === "function");
  return listen.call(this, { port: Number(asked), host: "127.0.0.1" }, told);
};

const { createEmulator } = await import("emulate");
await createEmulator({
  service: "github",
  port: Number(port),
  baseUrl: address,
  seed: {
    tokens: { "the-token-of-ada": { login: "ada", scopes: ["repo"] } },
    github: { users: [{ login: "ada" }], repos: [{ owner: "ada", name: "weir", auto_init: true }] },
  },
});
console.log("listening");
