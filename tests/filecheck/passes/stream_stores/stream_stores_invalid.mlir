// RUN: gathernest-opt %s -p "stream-stores" --verify-diagnostics --split-input-file

// expected-error@unknown {{expected vector stores; run vectorize-inner first}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{expected a store of vector<2xi32> to a contiguous out in a loop that steps from vector to vector, as vectorize-inner makes it}}
func.func @gather(%out: memref<?xi32>, %v: vector<2xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    vector.store %v, %out[%j] : memref<?xi32>, vector<2xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{expected a store of vector<2xi32> to a contiguous out in a loop that steps from vector to vector, as vectorize-inner makes it}}
func.func @gather(%out: memref<?xi32>, %v: vector<2xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  vector.store %v, %out[%c0] : memref<?xi32>, vector<2xi32>
  gather.loop inner(%j) = %c0 to %n step %c1 {
  }
  func.return
}

// -----

// expected-error@unknown {{expected a store of vector<2xi32> to a contiguous out in a loop that steps from vector to vector, as vectorize-inner makes it}}
func.func @gather(%out: memref<?xi32>, %v: vector<2xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c2 {
    vector.store %v, %out[%c0] : memref<?xi32>, vector<2xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{expected a store of vector<2xi32> to a contiguous out in a loop that steps from vector to vector, as vectorize-inner makes it}}
func.func @gather(%out: memref<?xi32, strided<[1], offset: ?>>, %v: vector<2xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c2 {
    vector.store %v, %out[%j] : memref<?xi32, strided<[1], offset: ?>>, vector<2xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{expected a store of vector<3xi32> to a contiguous out in a loop that steps from vector to vector, as vectorize-inner makes it}}
func.func @gather(%out: memref<?xi32>, %v: vector<3xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c3 {
    vector.store %v, %out[%j] : memref<?xi32>, vector<3xi32>
  }
  func.return
}
