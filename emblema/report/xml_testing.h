// For tests: a strict little XML reader, so that what a report writes can be taken apart again.
//
// Accepts elements, quoted attributes, character data and the entities that escape_markup writes,
// after an optional `<!DOCTYPE html>`. Everything else, also what browsers would forgive, is an
// error: the tests want well-formed markup, not markup that happens to display.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace emblema {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // of this element alone
  std::vector<XmlElement> children;

  bool has_class(std::string_view wanted) const {
    const auto found = attributes.find("class");
    if (found == attributes.end()) return false;
    const std::string padded = " " + found->second + " ";
    return padded.find(" " + std::string(wanted) + " ") != std::string::npos;
  }

  double number(const std::string& attribute) const { return std::stod(attributes.at(attribute)); }

  std::vector<const XmlElement*> all(std::string_view wanted) const {
    std::vector<const XmlElement*> found;
    collect(wanted, found);
    return found;
  }

  std::vector<const XmlElement*> with_class(std::string_view wanted, std::string_view tag) const {
    std::vector<const XmlElement*> found = all(tag);
    std::erase_if(found, [&](const XmlElement* element) { return !element->has_class(wanted); });
    return found;
  }

  // Its own text and that of everything inside, in order of the elements.
  std::string all_text() const {
    std::string joined = text;
    for (const XmlElement& child : children) joined += child.all_text();
    return joined;
  }

 private:
  void collect(std::string_view wanted, std::vector<const XmlElement*>& found) const {
    if (name == wanted) found.push_back(this);
    for (const XmlElement& child : children) child.collect(wanted, found);
  }
};

class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  // The root element; error() is empty if the whole text was one well-formed document.
  XmlElement read() {
    take("<!DOCTYPE html>");
    skip_space();
    XmlElement root = read_element(0);
    skip_space();
    if (error_.empty() && at_ != text_.size()) fail_with("text after the root element");
    return root;
  }

  const std::string& error() const { return error_; }

 private:
  void fail_with(const std::string& what) {
    if (!error_.empty()) return;
    const std::size_t from = at_ < 20 ? 0 : at_ - 20;
    error_ = what + " at byte " + std::to_string(at_) + ", near '" +
             std::string(text_.substr(std::min(from, text_.size()), 60)) + "'";
  }

  bool take(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (peek() == ' ' || peek() == '\n') ++at_;
  }

  std::string read_name() {
    std::string name;
    const auto is_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    };
    while (is_name(peek())) name += text_[at_++];
    if (name.empty()) fail_with("a name is missing");
    return name;
  }

  char read_entity() {
    if (take("&amp;")) return '&';
    if (take("&lt;")) return '<';
    if (take("&gt;")) return '>';
    if (take("&quot;")) return '"';
    if (take("&#39;")) return '\'';
    fail_with("a bare & or an unknown entity");
    return '?';
  }

  char read_character() {
    const char c = peek();
    if (c == '&') return read_entity();
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7F) fail_with("a control character");
    ++at_;
    return c;
  }

  void read_attribute(XmlElement& element) {
    const std::string name = read_name();
    if (!take("=\"")) fail_with("an attribute without a quoted value");
    std::string value;
    while (error_.empty() && peek() != '"') {
      if (peek() == '<') fail_with("< inside an attribute");
      value += read_character();
    }
    take("\"");
    if (!element.attributes.emplace(name, value).second) fail_with("attribute twice: " + name);
  }

  XmlElement read_element(int depth) {
    XmlElement element;
    if (depth > 64 || !take("<")) {
      fail_with("an element is missing, or too deep");
      return element;
    }
    element.name = read_name();
    while (error_.empty()) {
      const bool spaced = peek() == ' ';
      skip_space();
      if (take("/>")) return element;
      if (take(">")) break;
      if (!spaced) fail_with("attributes without a space");
      read_attribute(element);
    }
    read_content(element, depth);
    return element;
  }

  void read_content(XmlElement& element, int depth) {
    while (error_.empty()) {
      if (at_ >= text_.size()) return fail_with("not closed: " + element.name);
      if (take("</")) {
        if (read_name() != element.name) fail_with("closed in the wrong order: " + element.name);
        if (!take(">")) fail_with("a closing tag is not closed");
        return;
      }
      if (peek() == '<') {
        element.children.push_back(read_element(depth + 1));
      } else if (peek() == '>') {
        fail_with("a bare >");
      } else {
        element.text += read_character();
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
};

// The document, or a failed test that says where it is not well-formed.
inline XmlElement parse_xml(std::string_view text) {
  XmlReader reader(text);
  XmlElement root = reader.read();
  EXPECT_EQ(reader.error(), "");
  return root;
}

}  // namespace emblema
