// RUN: gathernest-opt %s -p "lower-nest-to-loops"

// A mask that each iteration has for itself, or a loop that does more, is tested inside.
// CHECK: scf.for %i = %{{.*}} to %n step
// CHECK-NEXT: %owned = arith.cmpi ult, %i, %n : index
// CHECK-NEXT: scf.if %owned {
// CHECK: scf.for %j = %{{.*}} to %n step
// CHECK-NEXT: scf.if %valid {
func.func @others(%out: memref<?xf32> {gather.view = #gather.view<axis[0]>}, %n: index, %x: f32, %valid: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop ordered indices(%i) = %c0 to %n step %c1 {
    %owned = arith.cmpi ult, %i, %n : index
    gather.accumulate %x, %out[%i] if %owned : f32, memref<?xf32>
  }
  gather.loop inner(%j) = %c0 to %n step %c1 {
    gather.accumulate %x, %out[%j] if %valid : f32, memref<?xf32>
    gather.accumulate %x, %out[%j] : f32, memref<?xf32>
  }
  func.return
}

// A maximum is compared and selected, of integers in one.
// CHECK-LABEL: func.func @max
// CHECK: %is_larger = arith.cmpf ogt, %row, %total : vector<4xf32>
// CHECK-NEXT: %larger = arith.select %is_larger, %row, %total : vector<4xi1>, vector<4xf32>
// CHECK-NEXT: %largest = arith.select %first, %row, %larger : vector<4xf32>
// CHECK: arith.maxsi
func.func @max(%out: memref<8xf32>, %n: index, %row: vector<4xf32>, %first: i1, %x: i32, %others: memref<8xi32>) {
  gather.accumulate %row, %out[%n] max %first : vector<4xf32>, memref<8xf32>
  gather.accumulate %x, %others[%n] max %first : i32, memref<8xi32>
  func.return
}
