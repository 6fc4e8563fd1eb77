// SET NX PX and a script that compares and deletes, for marketsim judge. It needs Java 17 and no library,
// because it speaks Redis's protocol itself: javac Lock.java, then marketsim judge -- java Lock.
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

class Lock {
    private static final String COMPARE_AND_DELETE =
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

    private final Redis server = new Redis(System.getenv("REDIS_HOST"), Integer.parseInt(System.getenv("REDIS_PORT")));
    private final String leaseMs = System.getenv("LOCK_TTL_MS");
    private final long retryMs = Long.parseLong(System.getenv("LOCK_RETRY_MS"));
    private String key;
    private String token;

    void acquire(String name) throws IOException, InterruptedException {
        key = System.getenv("KEY_PREFIX") + name;
        token = UUID.randomUUID().toString();
        while (server.call("SET", key, token, "NX", "PX", leaseMs) == null) {
            Thread.sleep(retryMs);
        }
    }

    /** Frees the lock, unless its lease has ended: then it may be another's, and the answer is false. */
    boolean release() throws IOException {
        return server.call("EVAL", COMPARE_AND_DELETE, "1", key, token).equals(1L);
    }

    String answer(String line) {
        try {
            if (line.startsWith("acquire ")) {
                acquire(line.substring("acquire ".length()));
                return "acquired";
            }
            return switch (line) {
                case "release" -> release() ? "released" : "lost";
                case "now" -> String.valueOf(System.currentTimeMillis());
                case "can cancel" -> "yes";
                default -> "error this is not understood: " + line;
            };
        } catch (InterruptedException | ClosedByInterruptException e) {
            return "cancelled"; // what it may have taken ends with its lease
        } catch (IOException e) {
            return "error " + e;
        }
    }

    /** Has each call run in a thread of its own, because it may be under way when "cancel" comes. */
    public static void main(String[] args) throws IOException, InterruptedException {
        Lock lock = new Lock();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Thread call = new Thread(); // none is under way
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("cancel")) {
                call.interrupt();
                continue;
            }
            String asked = line;
            call.join();
            call = new Thread(() -> System.out.println(lock.answer(asked))); // println flushes
            call.start();
        }
    }
}

/** A connection to Redis, opened when it is needed. An interrupt of the thread that waits for a reply closes it. */
class Redis {
    private static final int TIMEOUT_MS = 5000;

    private final String host;
    private final int port;
    private SocketChannel channel; // null: there is none
    private InputStream replies;

    Redis(String host, int port) {
        this.host = host;
        this.port = port;
    }

    /** Sends a command, and returns its reply: a String, a Long, a List, or null. It is never sent twice. */
    Object call(String... command) throws IOException {
        try {
            if (channel == null) {
                connect();
            }
            channel.write(ByteBuffer.wrap(encode(command)));
            return readReply();
        } catch (IOException e) {
            close(); // a reply that comes now would be taken for that of the next command
            throw e;
        }
    }

    private void connect() throws IOException {
        channel = SocketChannel.open(new InetSocketAddress(host, port));
        channel.socket().setSoTimeout(TIMEOUT_MS);
        channel.socket().setTcpNoDelay(true);
        replies = new BufferedInputStream(channel.socket().getInputStream());
    }

    private void close() throws IOException {
        if (channel != null) {
            channel.close();
            channel = null;
        }
    }

    private static byte[] encode(String... command) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(utf8("*" + command.length + "\r\n"));
        for (String word : command) {
            byte[] bytes = utf8(word);
            out.write(utf8("$" + bytes.length + "\r\n"));
            out.write(bytes);
            out.write(utf8("\r\n"));
        }
        return out.toByteArray();
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private Object readReply() throws IOException {
        String line = readLine();
        String rest = line.substring(1);
        return switch (line.charAt(0)) {
            case '+' -> rest;
            case ':' -> Long.valueOf(rest);
            case '$' -> readString(Integer.parseInt(rest));
            case '*' -> readList(Integer.parseInt(rest));
            default -> throw new IOException("Redis says " + line);
        };
    }

    private String readString(int length) throws IOException {
        if (length < 0) {
            return null;
        }
        byte[] bytes = replies.readNBytes(length);
        readLine();
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private List<Object> readList(int length) throws IOException {
        List<Object> list = new ArrayList<>();
        for (int i = 0; i < length; i++) {
            list.add(readReply());
        }
        return list;
    }

    private String readLine() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int b = replies.read(); b != '\n'; b = replies.read()) {
            if (b < 0) {
                throw new EOFException("the connection was closed");
            }
            line.write(b);
        }
        return line.toString(StandardCharsets.UTF_8).stripTrailing();
    }
}
