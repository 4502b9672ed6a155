import java.net.URI;
import java.net.http.*;
import java.util.regex.*;

/** Says who leads, and each change: Follow URL NAME */
public class Follow {
	public static void main(String[] args) throws Exception {
		var leader = Pattern.compile("\"leader\":\\{\"id\":\"([^\"]*)\",\"token\":\"(\\d+)\".*\"stale\":false");
		var request = HttpRequest.newBuilder(URI.create(args[0] + "/v1/elections/" + args[1] + "/watch")).build();
		HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofLines()).body().filter(l -> l.startsWith("data: ")).forEach(l -> {
			var found = leader.matcher(l);
			System.out.println(found.find() ? found.group(1) + " " + found.group(2) : "nobody");
		});
	}
}
