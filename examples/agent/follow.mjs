// Says who leads, and each change: follow.mjs URL NAME
const [url, name] = process.argv.slice(2);
let text = "";
for await (const bytes of (await fetch(`${url}/v1/elections/${name}/watch`)).body.pipeThrough(new TextDecoderStream())) {
  const lines = (text += bytes).split("\n");
  text = lines.pop();
  for (const line of lines.filter((line) => line.startsWith("data: "))) {
    const { leader, stale } = JSON.parse(line.slice(6));
    console.log(leader && !stale ? `${leader.id} ${leader.token}` : "nobody");
  }
}
