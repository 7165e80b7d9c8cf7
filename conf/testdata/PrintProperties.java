import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.Properties;
import java.util.TreeSet;

/**
 * Reads texts, each preceded by its length as four bytes, from standard input until its end and prints what java.util.Properties makes of each:
 * one line of hexadecimal UTF-16 units, key=value with commas between entries, sorted by key; or the word error.
 */
public class PrintProperties {
    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        StringBuilder out = new StringBuilder();
        while (true) {
            int length;
            try {
                length = in.readInt();
            } catch (java.io.EOFException end) {
                break;
            }
            byte[] text = in.readNBytes(length);
            Properties properties = new Properties();
            try {
                properties.load(new ByteArrayInputStream(text));
            } catch (IllegalArgumentException malformed) {
                out.append("error\n");
                continue;
            }
            String separator = "";
            for (String key : new TreeSet<>(properties.stringPropertyNames())) {
                out.append(separator).append(hex(key)).append('=').append(hex(properties.getProperty(key)));
                separator = ",";
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    /** A surrogate without its other half is printed as U+FFFD, which is what a UTF-8 string must make of it. */
    private static String hex(String s) {
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            boolean pair = Character.isHighSurrogate(c) && i + 1 < s.length() && Character.isLowSurrogate(s.charAt(i + 1));
            if (pair) {
                b.append(String.format("%04x%04x", (int) c, (int) s.charAt(++i)));
            } else {
                b.append(String.format("%04x", Character.isSurrogate(c) ? 0xfffd : (int) c));
            }
        }
        return b.toString();
    }
}
