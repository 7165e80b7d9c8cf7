// Prints how javax.security.auth.x500.X500Principal.getName writes made-up names, one a line: the name as DER and the
// text as UTF-8, both in hexadecimal digits. x500text.txt is what it printed.
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Random;
import javax.security.auth.x500.X500Principal;

public class X500Text {
    static final String[] OIDS = { // of attribute types, as DER
        "0603550403", "0603550406", "0603550407", "0603550408", "060355040a", "060355040b", "0603550409",
        "060a0992268993f22c640119", "060a0992268993f22c640101", "0603550405", "060355040c", "0603550411",
        "06092a864886f70d010901", "060355042e", "06032a0304",
    };
    static final int[] TAGS = {12, 12, 12, 12, 19, 19, 22, 20, 30, 27, 28, 4, 2, 18, 26};
    static final String[] TEXTS = {
        "a", "b c", " ", "  a ", "a,b", "\"", "\\", "#a", "a#", "<>", ";=+", "\u00e4\u20ac", "\0", "\r", "\ta", "\u1d11e",
        "", "a\rb\r", "/", "'",
    };

    static byte[] der(int tag, byte[] content) {
        ByteArrayOutputStream b = new ByteArrayOutputStream();
        b.write(tag);
        if (content.length > 127) {
            b.write(0x82);
            b.write(content.length >> 8);
        }
        b.write(content.length);
        b.writeBytes(content);
        return b.toByteArray();
    }

    public static void main(String[] args) {
        Random random = new Random(7);
        for (int count = 0; count < 400;) {
            ByteArrayOutputStream sets = new ByteArrayOutputStream();
            for (int i = random.nextInt(4); i >= 0; i--) {
                ByteArrayOutputStream set = new ByteArrayOutputStream();
                for (int n = random.nextInt(5) / 4; n >= 0; n--) {
                    ByteArrayOutputStream a = new ByteArrayOutputStream();
                    a.writeBytes(HexFormat.of().parseHex(OIDS[random.nextInt(OIDS.length)]));
                    int tag = TAGS[random.nextInt(TAGS.length)];
                    String text = TEXTS[random.nextInt(TEXTS.length)] + TEXTS[random.nextInt(TEXTS.length)];
                    a.writeBytes(der(tag, tag == 30 ? text.getBytes(StandardCharsets.UTF_16BE)
                        : tag == 20 ? text.getBytes(StandardCharsets.ISO_8859_1) : text.getBytes(StandardCharsets.UTF_8)));
                    set.writeBytes(der(0x30, a.toByteArray()));
                }
                sets.writeBytes(der(0x31, set.toByteArray()));
            }
            byte[] name = der(0x30, sets.toByteArray());
            String text;
            try {
                text = new X500Principal(name).getName();
            } catch (IllegalArgumentException e) {
                continue;
            }
            System.out.println(HexFormat.of().formatHex(name) + " "
                + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8)));
            count++;
        }
    }
}
