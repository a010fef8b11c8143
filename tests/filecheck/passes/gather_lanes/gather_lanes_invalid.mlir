// RUN: gathernest-opt %s -p "gather-lanes" --verify-diagnostics --split-input-file

// expected-error@unknown {{expected vectors of elements with an index each; run vectorize-inner first}}
func.func @gather(%data: memref<?xi32>, %i: index) {
  %element = memref.load %data[%i] : memref<?xi32>
  func.return
}

// -----

// expected-error@unknown {{expected elements of 4 or 8 bytes, got 2}}
func.func @gather(%data: memref<?xi16>, %i: index) {
  %element = memref.load %data[%i] : memref<?xi16>
  %elements = vector.from_elements %element, %element : vector<2xi16>
  func.return
}
