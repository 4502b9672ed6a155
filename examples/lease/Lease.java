import java.lang.invoke.*;
import java.nio.*;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Scanner;

/** Reads a lease page. It says for each line of its input whether leadership is proven. */
public class Lease {
	static final VarHandle NUMBER = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
	final ByteBuffer page, text = ByteBuffer.allocate(64);
	final FileChannel uptime; // CLOCK_BOOTTIME, which Java does not read, rounded down to 10 ms
	Lease(Path path) throws Exception {
		try (var file = FileChannel.open(path)) { page = file.map(FileChannel.MapMode.READ_ONLY, 0, 64); }
		uptime = FileChannel.open(Path.of("/proc/uptime"));
		if ((long) NUMBER.get(page, 0) != 0x3167707463656c65L) throw new Exception("ELECT_LEASE names no lease page"); // "electpg1"
	}

	boolean proven() throws Exception {
		long until = (long) NUMBER.getVolatile(page, 24);
		int n = uptime.read(text.clear(), 0); // after the page
		long boot = (Long.parseLong(new String(text.array(), 0, n).split(" ")[0].replace(".", "")) + 1) * 10_000_000;
		return boot >= System.nanoTime() && boot < until; // less than CLOCK_MONOTONIC: it is a container's own uptime
	}

	public static void main(String[] args) throws Exception {
		var lease = new Lease(Path.of(System.getenv("ELECT_LEASE")));
		for (var in = new Scanner(System.in); in.hasNextLine(); in.nextLine())
			System.out.println((long) NUMBER.get(lease.page, 16) + (lease.proven() ? " proven" : " over"));
	}
}
